/* Custody: what two senders hand to one collector is landed once, and forgotten by its sender only afterwards.
 *
 * docs/protocol/, sections 6, 8 and 20. The relay is a set: whatever was ever published may arrive at any time, in
 * any order, again and again, or never; so loss, duplication, reordering and replay need no steps of their own.
 * A transaction is one atomic step. A crash forgets what is not committed. One sender may once be put back to a copy
 * of its state; it notices that when it starts (rule 20.2), or only by an acknowledgement (rule 20.3).
 *
 * In every state that can be reached faults may end. Then everything that waits is sent, taken and acknowledged until
 * nothing changes any more, and each reading that a sender holds must have been landed, exactly once.
 */
#define SENDERS 2
#ifndef READINGS
#define READINGS 3
#endif
#define LIVES 3                              /* incarnations: of the beginning, after a restore, after a discovery */
#define NUMBERS 3                            /* link sequences in each */
#define PLACES (LIVES * NUMBERS)
#define MESSAGE(place, reading) (1 << ((place) * READINGS + (reading)))

typedef Sender {
    byte given;                              /* readings that sensors have made so far; no life makes one twice */
    byte life, next;                         /* durable: incarnation, next link sequence */
    byte queue[READINGS];                    /* durable: place + 1 of a reading that waits, 0 of any other */
    byte copied_life, copied_next, copied_queue[READINGS];
    int published, acknowledged;             /* what a relay may deliver, to the collector and to the sender */
    byte taken[PLACES];                      /* durable, at the collector: reading + 1 that came under a place */
    int uncommitted;                         /* in the collector's memory */
    byte landed[READINGS]                    /* how often: for the assertions alone */
}

Sender sender[SENDERS];
byte fresh_life = 1;
bool copied, restored, crashed;
byte s, place, reading, other, round;
int message;

inline begin_life(who) {
    sender[who].life = fresh_life;
    sender[who].next = 0;
    fresh_life++
}

inline enqueue(who, what) {
    sender[who].queue[what] = sender[who].life * NUMBERS + sender[who].next + 1;
    sender[who].next++
}

/* A message reaches the collector. */
inline take(who, where, what) {
    if
#ifndef NO_DEDUP
    :: sender[who].taken[where] == what + 1 ->       /* a duplicate: its acknowledgement may have been lost */
        sender[who].acknowledged = sender[who].acknowledged | MESSAGE(where, what)
    :: sender[who].taken[where] != 0 && sender[who].taken[where] != what + 1 ->
#ifdef NO_IMPRINTS
        sender[who].acknowledged = sender[who].acknowledged | MESSAGE(where, what)     /* told apart by number alone */
#else
        sender[who].acknowledged = sender[who].acknowledged | MESSAGE(where, sender[who].taken[where] - 1)
#endif
    :: sender[who].taken[where] == 0 ->
#else
    :: true ->
#endif
        sender[who].uncommitted = sender[who].uncommitted | MESSAGE(where, what);
#ifdef ACKNOWLEDGE_BEFORE_COMMIT
        sender[who].acknowledged = sender[who].acknowledged | MESSAGE(where, what)
#endif
    fi
}

/* The collector commits one message, and only then acknowledges it. */
inline commit(who, where, what) {
    sender[who].uncommitted = sender[who].uncommitted & ~MESSAGE(where, what);
    if
#ifndef NO_DEDUP
    :: sender[who].taken[where] != 0 -> skip         /* another copy of it was in the same transaction */
#endif
    :: else ->
        sender[who].taken[where] = what + 1;
        sender[who].landed[what]++;
        assert(sender[who].landed[what] <= 1)        /* exactly once */
    fi;
    sender[who].acknowledged = sender[who].acknowledged | MESSAGE(where, (sender[who].taken[where] - 1))
}

/* A sender forgets a reading: somebody else must have it durably. */
inline forget(who, what) {
    sender[who].queue[what] = 0;
    assert(sender[who].landed[what] == 1)            /* nothing is lost */
}

/* An acknowledgement that names a place and what the collector holds there reaches the sender. */
inline hear(who, where, what) {
    for (other : 0 .. READINGS - 1) {
        if
        :: sender[who].queue[other] == where + 1 && other == what -> forget(who, other)
        :: sender[who].queue[other] == where + 1 && other != what ->
#ifdef FREE_BY_NUMBER
            forget(who, other)
#else
            if                                       /* another life of this device has used the number */
            :: sender[who].life == where / NUMBERS -> begin_life(who)
            :: else -> skip
            fi;
            enqueue(who, other)
#endif
        :: else -> skip
        fi
    }
    other = 0
}

/* Faults have ended: run until nothing changes. */
inline drain() {
    for (round : 1 .. 6) {
        for (s : 0 .. SENDERS - 1) {
            for (reading : 0 .. READINGS - 1) {
                if
                :: sender[s].queue[reading] ->
                    place = sender[s].queue[reading] - 1;
                    take(s, place, reading);
                    if
                    :: sender[s].uncommitted & MESSAGE(place, reading) -> commit(s, place, reading)
                    :: else -> skip
                    fi;
                    if
                    :: sender[s].taken[place] -> hear(s, place, (sender[s].taken[place] - 1))
                    :: else -> skip
                    fi
                :: else -> skip
                fi
            }
        }
    }
    for (s : 0 .. SENDERS - 1) {
        for (reading : 0 .. READINGS - 1) {
            assert(!sender[s].queue[reading])        /* nothing waits for ever */
        }
    }
}

inline choose() {
    select(s : 0 .. SENDERS - 1);
    select(place : 0 .. PLACES - 1);
    select(reading : 0 .. READINGS - 1)
}

inline unchoose() {                              /* so that what was chosen makes no states of its own */
    s = 0;
    place = 0;
    reading = 0
}

active proctype world() {
    do
    :: atomic {                                      /* a sensor has made a reading: it is stored in one transaction */
        select(s : 0 .. SENDERS - 1);
        if
        :: sender[s].given < (s -> 1 : READINGS) && sender[s].next < NUMBERS ->
            enqueue(s, sender[s].given);
            sender[s].given++
        :: else -> skip
        fi;
        unchoose()
       }
    :: atomic {                                      /* a sender publishes, for the first time or again */
        select(s : 0 .. SENDERS - 1);
        select(reading : 0 .. READINGS - 1);
        if
        :: sender[s].queue[reading] ->
            sender[s].published = sender[s].published | MESSAGE(sender[s].queue[reading] - 1, reading);
#ifdef CLOSE_ON_PUBACK
            forget(s, reading)
#endif
        :: else -> skip
        fi;
        unchoose()
       }
    :: atomic {                                      /* the relay delivers a message */
        choose();
        if
        :: sender[s].published & MESSAGE(place, reading) -> take(s, place, reading)
        :: else -> skip
        fi;
        unchoose()
       }
    :: atomic {
        choose();
        if
        :: sender[s].uncommitted & MESSAGE(place, reading) -> commit(s, place, reading)
        :: else -> skip
        fi;
        unchoose()
       }
    :: atomic {                                      /* the relay delivers an acknowledgement, perhaps an old one */
        choose();
        if
        :: sender[s].acknowledged & MESSAGE(place, reading) -> hear(s, place, reading)
        :: else -> skip
        fi;
        unchoose()
       }
    :: atomic {                                      /* the collector's process ends */
        !crashed && (sender[0].uncommitted || sender[1].uncommitted) ->
            crashed = true;
            sender[0].uncommitted = 0;
            sender[1].uncommitted = 0
       }
#ifdef SEQUENCES_IN_MEMORY
    :: atomic { sender[0].next > 0 -> sender[0].next = 0 }
#endif
    :: atomic {                                      /* somebody copies the first sender's state */
        !copied ->
            copied = true;
            sender[0].copied_life = sender[0].life;
            sender[0].copied_next = sender[0].next;
            for (reading : 0 .. READINGS - 1) {
                sender[0].copied_queue[reading] = sender[0].queue[reading]
            }
            reading = 0
       }
    :: atomic {                                      /* and puts it back */
        copied && !restored ->
            restored = true;
            sender[0].life = sender[0].copied_life;
            sender[0].next = sender[0].copied_next;
            for (reading : 0 .. READINGS - 1) {
                sender[0].queue[reading] = sender[0].copied_queue[reading]
            }
            reading = 0;
            if
#ifndef SEQUENCE_REUSED
            :: begin_life(0)                         /* it notices at the start */
#endif
#if !defined(NO_IMPRINTS) || defined(SEQUENCE_REUSED)
            :: skip                                  /* it cannot: the image of a whole file system was put back */
#endif
            fi
       }
    :: atomic { drain(); break }
    od
}
