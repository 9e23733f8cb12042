/* Membership: three devices remove each other and let each other back in; one of them settles at some moment.
 *
 * docs/protocol/groups.md, section 35, *Rivals*. Every manifest reaches every device at any time after what it follows, or
 * never. A device issues by what it has received, so one that was removed goes on until it hears of that.
 *
 * Devices that have received the same manifests believe in the same members, and what a device issued beside its own
 * removal, by an issuer whom nobody removes, does not count.
 *
 * Simpler than the document: of a circle one removal prevails by the fewest wishes, then the lowest key; all three are
 * known to everybody, and nobody has been a member for longer than another.
 */
#define DEVICES 3
#ifndef MANIFESTS
#define MANIFESTS 5                          /* the first one, which lists all three, among them */
#endif
#define HAS(set, bit) ((set) & (1 << (bit)))

byte issued = 1;
byte issuer[MANIFESTS], past[MANIFESTS];     /* past: the manifests that it follows, as bits */
byte lists[MANIFESTS], adds[MANIFESTS], removes[MANIFESTS];      /* devices, as bits */
byte received[DEVICES], root[DEVICES], believed[DEVICES];

/* Scratch, not part of the state. */
hidden byte held, meeting, base, steps, counted, voided, undecided, against, attacking, best, wishes, best_wishes, members;
hidden byte i, j, k, adders, removers;
hidden byte moved, is_in, may_be_in, found;
byte d, target, what;
bool settled;

/* Find the last manifest of a set that every other one follows or is followed by. */
inline find_meeting(set) {
    meeting = 0;
    for (i : 0 .. MANIFESTS - 1) {
        if
        :: HAS(set, i) ->
            found = true;
            for (j : 0 .. MANIFESTS - 1) {
                if
                :: HAS(set, j) && j != i && !HAS(past[i], j) && !HAS(past[j], i) -> found = false
                :: else -> skip
                fi
            }
            if
            :: found -> meeting = i
            :: else -> skip
            fi
        :: else -> skip
        fi
    }
}

inline find_against(step) {
    against = 0;
    for (j : 0 .. MANIFESTS - 1) {
        if
        :: HAS(steps, j) && HAS(removes[j], issuer[step]) && issuer[j] != issuer[step] && !HAS(past[j], step) && !HAS(past[step], j) ->
            against = against | (1 << j)
        :: else -> skip
        fi
    }
}

/* Whether a device is a member by some additions and removals: rule 4. */
inline find_member(device, additions, removals, result) {
    removers = 0;
    for (j : 0 .. MANIFESTS - 1) {
        if
        :: HAS(removals, j) && HAS(removes[j], device) -> removers = removers | (1 << j)
        :: else -> skip
        fi
    }
    result = HAS(base, device) && !removers;
    for (j : 0 .. MANIFESTS - 1) {
        if
        :: HAS(additions, j) && HAS(adds[j], device) && !(removers & ~past[j]) -> result = true
        :: else -> skip
        fi
    }
}

/* Rule 2, until nothing more is decided by it. */
inline decide() {
    moved = true;
    do
    :: !moved -> break
    :: else ->
        moved = false;
        for (k : 0 .. MANIFESTS - 1) {
            if
            :: HAS(steps & ~(counted | voided), k) ->
                find_against(k);
                find_member(issuer[k], (past[k] & counted), (past[k] & steps & ~voided), is_in);
                find_member(issuer[k], (past[k] & steps & ~voided), (past[k] & counted), may_be_in);
                if
                :: against & counted || !may_be_in ->
                    voided = voided | (1 << k);
                    moved = true
                :: else ->
                    if
                    :: is_in && !(against & ~voided) ->
                        counted = counted | (1 << k);
                        moved = true
                    :: else -> skip
                    fi
                fi
            :: else -> skip
            fi
        }
    od
}

/* Rule 3: of the undecided that are against others, one prevails. */
inline prevail() {
    undecided = steps & ~(counted | voided);
    attacking = 0;
    for (k : 0 .. MANIFESTS - 1) {
        if
        :: HAS(undecided, k) ->
            find_against(k);
            attacking = attacking | (against & undecided)
        :: else -> skip
        fi
    }
    best = MANIFESTS;
    best_wishes = 255;
    for (k : 0 .. MANIFESTS - 1) {
        if
        :: HAS(attacking, k) ->
            wishes = 0;
            for (i : 0 .. DEVICES - 1) {
                found = false;
                for (j : 0 .. MANIFESTS - 1) {
                    if
                    :: HAS(steps, j) && issuer[j] == i && i != issuer[k] && HAS(removes[j], issuer[k]) -> found = true
                    :: else -> skip
                    fi
                }
                if
                :: found -> wishes++
                :: else -> skip
                fi
            }
            if
            :: wishes < best_wishes || (wishes == best_wishes && issuer[k] < issuer[best]) ->
                best = k;
                best_wishes = wishes
            :: else -> skip
            fi
        :: else -> skip
        fi
    }
    assert(best < MANIFESTS);
    counted = counted | (1 << best);
    find_against(best);
    voided = voided | (against & ~counted)
}

/* What a device believes by the manifests that it holds: its root, and what it has received that follows that. */
inline resolve(device) {
    held = 1 << root[device];
    for (i : 0 .. MANIFESTS - 1) {
        if
        :: HAS(received[device], i) && HAS(past[i], root[device]) -> held = held | (1 << i)
        :: else -> skip
        fi
    }
    find_meeting(held);
#ifdef SETTLE_BY_ARRIVAL_ORDER
    meeting = root[device];                      /* judged from where its graph happens to begin */
#endif
    base = lists[meeting];
    steps = 0;
    for (i : 0 .. MANIFESTS - 1) {
        if
        :: HAS(held, i) && HAS(past[i], meeting) -> steps = steps | (1 << i)
        :: else -> skip
        fi
    }
    counted = 0;
    voided = 0;
#ifdef NOTHING_IS_VOID
    counted = steps;
#endif
    decide();
    do
    :: steps & ~(counted | voided) ->
        prevail();
        decide()
    :: else -> break
    od;
    members = 0;
    for (i : 0 .. DEVICES - 1) {
        find_member(i, counted, counted, is_in);
        if
        :: is_in -> members = members | (1 << i)
        :: else -> skip
        fi
    }
    believed[device] = members
}

inline check(device) {
    for (i : 0 .. DEVICES - 1) {                     /* agreement */
        assert(received[i] != received[device] || believed[i] == believed[device])
    }
    for (k : 0 .. MANIFESTS - 1) {                   /* the removed gain nothing */
        if
        :: HAS(counted, k) ->
            find_against(k);
            for (i : 0 .. MANIFESTS - 1) {
                found = true;
                for (j : 0 .. MANIFESTS - 1) {
                    if
                    :: HAS(received[device], j) && j != i && HAS(removes[j], issuer[i]) -> found = false
                    :: else -> skip
                    fi
                }
                assert(!HAS(against, i) || !found)
            }
        :: else -> skip
        fi
    }
}

init {
    d_step {
        lists[0] = 7;
        for (i : 0 .. DEVICES - 1) {
            received[i] = 1;
            believed[i] = 7
        }
        moved = 0
    }
    do
    :: atomic {                                      /* a device removes another one, lets one in, or only follows all */
        select(d : 0 .. DEVICES - 1);
        select(target : 0 .. DEVICES - 1);
        select(what : 0 .. 1);
        if
        :: issued < MANIFESTS && HAS(believed[d], d) && target != d && (what == 1 || target == (d + 1) % DEVICES) &&
           (HAS(received[d], issued - 1) || d > issuer[issued - 1]) ->      /* of concurrent ones, one order is enough */
            d_step {
                issuer[issued] = d;
                past[issued] = received[d];
                lists[issued] = believed[d];
                if
                :: what == 1 && HAS(believed[d], target) ->
                    removes[issued] = 1 << target;
                    lists[issued] = lists[issued] & ~(1 << target)
                :: what == 1 && !HAS(believed[d], target) ->
                    adds[issued] = 1 << target;
                    lists[issued] = lists[issued] | (1 << target)
                :: else -> skip
                fi;
                received[d] = received[d] | (1 << issued);
                issued++;
                resolve(d);
                check(d);
                moved = 0
            }
        :: else -> skip
        fi;
        d = 0; target = 0; what = 0
       }
    :: atomic {                                      /* a manifest arrives, after all that it follows */
        select(d : 0 .. DEVICES - 1);
        select(what : 1 .. MANIFESTS - 1);
        if
        :: what < issued && !HAS(received[d], what) && !(past[what] & ~received[d]) ->
            d_step {
                received[d] = received[d] | (1 << what);
                if
                :: !HAS(past[what], root[d]) ->      /* a late rival: the settled past is taken up again */
#ifdef SETTLED_FOR_GOOD
                    skip                             /* it changes nothing any more */
#else
                    root[d] = 0;
                    resolve(d)
#endif
                :: else -> resolve(d)
                fi;
                check(d);
                moved = 0
            }
        :: else -> skip
        fi;
        d = 0; what = 0
       }
    :: atomic {                                      /* the first device settles, once; the others keep everything */
        !root[0] && !settled ->
        d_step {
            find_meeting(received[0]);
            root[0] = meeting;
            settled = meeting > 0;
            moved = 0
        }
       }
    :: break
    od
}
