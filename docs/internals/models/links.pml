/* Links: one author gives two recipients a link key each, and sends them messages under these keys.
 *
 * docs/protocol/core.md, section 4, *Link keys*. The relay is a set, as in custody.pml: what was published may arrive at any
 * time, again and again, or never. A device that restarts forgets what is in memory; a recipient may once be put back
 * to a state without its key.
 *
 * No counter is used twice with one key, a link envelope is written only for a recipient that has stored the key, and
 * once faults have ended every message is taken, exactly once: also where the recipient has lost the key.
 */
#define RECIPIENTS 2
#define MESSAGES 2
#define KEYS 2                               /* keys that the author draws for one recipient; 0 is none */

typedef Link {
    byte offered, in_use;                    /* the author's, in memory: the key in a LINK, and the one in use */
    byte drawn;                              /* keys are random: none is drawn twice */
    byte counter;                            /* in memory, of the key in use */
    byte waiting;                            /* durable: messages that no acknowledgement covers, as bits */
    byte sent;                               /* in memory: those that went once by this process, as bits */
    byte used[KEYS];                         /* counters that were used: for the assertion alone */
    byte links;                              /* LINK messages that the relay may deliver, as bits of keys */
    byte linked[MESSAGES];                   /* message by link that it may deliver: key of each */
    byte sealed;                             /* sealed messages that it may deliver, as bits */
    byte heard_of;                           /* keys whose acknowledgement it may deliver, as bits */
    byte acknowledged;                       /* messages likewise */
    byte stored, received;                   /* the recipient's, durable: keys, and messages, as bits */
    byte uncommitted;                        /* the recipient's, in memory: a key */
    bool lost                                /* it was put back to a state without its key */
}

Link link[RECIPIENTS];
byte given[RECIPIENTS];
bool author_crashed, put_back;
byte r, m;

inline forget_memory(which) {
#ifndef KEY_SURVIVES_CRASH
    link[which].in_use = 0;
    link[which].offered = 0;
#endif
    link[which].counter = 0;
    link[which].sent = 0
}

inline draw(which) {
    link[which].drawn++;
    link[which].offered = link[which].drawn;
    link[which].links = link[which].links | (1 << link[which].offered)
}

/* The author sends a message that waits: the first time by link if it can, else sealed. */
inline send(which, what) {
    if
#ifdef USE_BEFORE_ACKNOWLEDGED
    :: link[which].offered && !link[which].in_use -> link[which].in_use = link[which].offered
#endif
    :: else -> skip
    fi;
    if
    :: link[which].sent & (1 << what) ->             /* again: sealed, and the key is not used any more */
#ifdef REPEAT_BY_LINK
        if
        :: link[which].in_use -> link[which].linked[what] = link[which].in_use
        :: else -> link[which].sealed = link[which].sealed | (1 << what)
        fi
#else
        link[which].in_use = 0;
        link[which].sealed = link[which].sealed | (1 << what)
#endif
    :: else ->
        link[which].sent = link[which].sent | (1 << what);
        if
        :: link[which].in_use ->
            assert(!(link[which].used[link[which].in_use - 1] & (1 << link[which].counter)));    /* no nonce twice */
            assert(link[which].stored & (1 << link[which].in_use) || link[which].lost);   /* the recipient has the key */
            link[which].used[link[which].in_use - 1] = link[which].used[link[which].in_use - 1] | (1 << link[which].counter);
            link[which].counter++;
            link[which].linked[what] = link[which].in_use
        :: else -> link[which].sealed = link[which].sealed | (1 << what)
        fi
    fi
}

inline receive_message(which, what) {
    link[which].received = link[which].received | (1 << what);
    link[which].acknowledged = link[which].acknowledged | (1 << what)
}

inline hear(which, what) {
    link[which].waiting = link[which].waiting & ~(1 << what);
    assert(link[which].received & (1 << what))       /* nothing is lost */
}

inline drain() {
    for (r : 0 .. RECIPIENTS - 1) {
        for (m : 0 .. MESSAGES - 1) {
            if
            :: link[r].waiting & (1 << m) ->
                send(r, m);
                send(r, m);                          /* nobody has answered: it goes again */
                if
                :: link[r].sealed & (1 << m) -> receive_message(r, m)
                :: link[r].linked[m] && link[r].stored & (1 << link[r].linked[m]) -> receive_message(r, m)
                :: else -> skip
                fi;
                if
                :: link[r].acknowledged & (1 << m) -> hear(r, m)
                :: else -> skip
                fi
            :: else -> skip
            fi
        }
        assert(!link[r].waiting)                     /* no message waits for a key */
    }
}

active proctype world() {
    do
    :: atomic {                                      /* a message is queued */
        select(r : 0 .. RECIPIENTS - 1);
        if
        :: given[r] < (r -> 1 : MESSAGES) -> link[r].waiting = link[r].waiting | (1 << given[r]); given[r]++
        :: else -> skip
        fi;
        r = 0
       }
    :: atomic {                                      /* the author offers a recipient its next key */
        select(r : 0 .. RECIPIENTS - 1);
        if
        :: link[r].drawn < (r -> 1 : KEYS) && !link[r].offered -> draw(r)
        :: else -> skip
        fi;
        r = 0
       }
    :: atomic {                                      /* a LINK arrives */
        select(r : 0 .. RECIPIENTS - 1);
        select(m : 1 .. KEYS);
        if
        :: link[r].links & (1 << m) && !(link[r].stored & (1 << m)) && !link[r].uncommitted ->
            link[r].uncommitted = m;
#ifdef ACKNOWLEDGE_BEFORE_COMMIT
            link[r].heard_of = link[r].heard_of | (1 << m)
#endif
        :: link[r].links & (1 << m) && link[r].stored & (1 << m) -> link[r].heard_of = link[r].heard_of | (1 << m)
        :: else -> skip
        fi;
        r = 0; m = 0
       }
    :: atomic {                                      /* the recipient commits it, then acknowledges it */
        select(r : 0 .. RECIPIENTS - 1);
        if
        :: link[r].uncommitted ->
            link[r].stored = link[r].stored | (1 << link[r].uncommitted);
            link[r].heard_of = link[r].heard_of | (1 << link[r].uncommitted);
            link[r].uncommitted = 0
        :: else -> skip
        fi;
        r = 0
       }
    :: atomic {                                      /* the author learns that the recipient has the key */
        select(r : 0 .. RECIPIENTS - 1);
        if
        :: link[r].offered && link[r].heard_of & (1 << link[r].offered) && link[r].in_use != link[r].offered ->
            link[r].in_use = link[r].offered;
            link[r].offered = 0;
            link[r].counter = 0
        :: else -> skip
        fi;
        r = 0
       }
    :: atomic {
        select(r : 0 .. RECIPIENTS - 1);
        select(m : 0 .. MESSAGES - 1);
        if
        :: link[r].waiting & (1 << m) -> send(r, m)
        :: else -> skip
        fi;
        r = 0; m = 0
       }
    :: atomic {                                      /* a message arrives; the recipient opens it if it has the key */
        select(r : 0 .. RECIPIENTS - 1);
        select(m : 0 .. MESSAGES - 1);
        if
        :: link[r].sealed & (1 << m) || (link[r].linked[m] && link[r].stored & (1 << link[r].linked[m])) -> receive_message(r, m)
        :: else -> skip
        fi;
        r = 0; m = 0
       }
    :: atomic {
        select(r : 0 .. RECIPIENTS - 1);
        select(m : 0 .. MESSAGES - 1);
        if
        :: link[r].acknowledged & (1 << m) && link[r].waiting & (1 << m) -> hear(r, m)
        :: else -> skip
        fi;
        r = 0; m = 0
       }
    :: atomic {                                      /* the author's process ends, and starts again */
        !author_crashed ->
            author_crashed = true;
            forget_memory(0);
            forget_memory(1)
       }
    :: atomic {                                      /* a recipient's process ends, and starts again */
        link[0].uncommitted || link[1].uncommitted ->
            link[0].uncommitted = 0;
            link[1].uncommitted = 0
       }
    :: atomic {                                      /* a recipient is put back to a state without its key */
        !put_back && link[0].stored ->
            put_back = true;
            link[0].stored = 0;
            link[0].uncommitted = 0;
            link[0].lost = true
       }
    :: atomic { drain(); break }
    od
}
