/*
 * The gate's decisions as a Spin model. docs/design/model.md says what it has, its bounds, what it leaves out, and how it is bound
 * to the code. model/check.sh runs every configuration, every property and every planted fault ("make model").
 *
 * A line "internal/gate/count.go authorize" names the function that a part is a model of. One d_step is one transaction, or one
 * call without a transaction. What is in db is in the database. What a crash forgets is reset by crash().
 *
 * The configurations. Each is exhaustive within its bounds; model/check.sh sets them with -D.
 *   STEPS       1 or 2: the steps of the first job (slots 0 and 1)
 *   COMP        1: slot 2 is the compensation of step 1 of that job
 *   SECOND      1: a last slot for another job: an operator's own payload, or the wish that replaces the first
 *   BENIGN      1: the first step of the first job is benign when it is planned
 *   DESIRED     1: the requester is a desired set, and the reconciler asks
 *   NEED        how many keys have to sign (the threshold)
 *   COOL        1: a cool-off after the last signature
 *   PAYLOADS    how many payloads there are at most: 3 to 6, or 9; the model asserts that it is enough
 *   SUBMITS CRASHES BACKUPS RESTORES CHANGES EXPIRIES ROTATIONS SPOILS WISHES   how often each may happen
 *   OWNS        how many payloads operators write themselves, which the gate has not issued
 *   FAILS       1: a driver may fail, or not know
 *   PRUNE       1: spent nonces of expired payloads are deleted
 *   RUNNERS     1 or 2 workers of the reconciler
 */

#ifndef STEPS
#define STEPS 1
#endif
#ifndef COMP
#define COMP 0
#endif
#ifndef SECOND
#define SECOND 0
#endif
#ifndef BENIGN
#define BENIGN 0
#endif
#ifndef DESIRED
#define DESIRED 0
#endif
#ifndef NEED
#define NEED 1
#endif
#ifndef COOL
#define COOL 0
#endif
#ifndef PAYLOADS
#define PAYLOADS 4
#endif
#ifndef SUBMITS
#define SUBMITS 1
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef BACKUPS
#define BACKUPS 1
#endif
#ifndef RESTORES
#define RESTORES 1
#endif
#ifndef CHANGES
#define CHANGES 1
#endif
#ifndef EXPIRIES
#define EXPIRIES 1
#endif
#ifndef ROTATIONS
#define ROTATIONS 0
#endif
#ifndef SPOILS
#define SPOILS 0
#endif
#ifndef WISHES
#define WISHES 0
#endif
#ifndef FAILS
#define FAILS 0
#endif
#ifndef PRUNE
#define PRUNE 0
#endif
#ifndef RUNNERS
#define RUNNERS 1
#endif
#ifndef OWNS
#define OWNS 0
#endif

#define SLOTS (STEPS + COMP + SECOND)
#define BACK  STEPS            /* the slot of the compensation */
#define OTHER (STEPS + COMP)   /* the slot of the second job */

/* The states of a step, as internal/base/op/job.go names them. unknown is a slot without a step. */
mtype = { unknown, planned, pending_signature, authorized, dispatched, succeeded, failed, interrupted, rejected, expired,
          superseded, cancelled, refused };

#define OPEN(s)  ((s) == planned || (s) == pending_signature || (s) == authorized || (s) == dispatched)
#define ENDED(s) (!OPEN(s) && (s) != unknown)

/*
 * The moves of a step: the kind of the entry in the audit log, from which states, and to which. TestTheModelHasTheSameMoves of
 * internal/test/acceptor compares these lines with the acceptor's table and with op.Transitions.
 */
#define FROM_planned(s)     ((s) == unknown)
#define TO_planned          planned
#define FROM_compensated(s) ((s) == unknown)
#define TO_compensated      planned
#define FROM_requested(s)   ((s) == unknown || (s) == planned)
#define TO_requested        pending_signature
#define FROM_reissued(s)    ((s) == pending_signature)
#define TO_reissued         pending_signature
#define FROM_signed(s)      ((s) == pending_signature)
#define TO_signed           pending_signature
#define FROM_approved(s)    ((s) == pending_signature)
#define TO_approved         authorized
#define FROM_rejected(s)    ((s) == pending_signature || (s) == authorized)
#define TO_rejected         rejected
#define FROM_expired(s)     ((s) == pending_signature || (s) == authorized)
#define TO_expired          expired
#define FROM_superseded(s)  ((s) == planned || (s) == pending_signature || (s) == authorized)
#define TO_superseded       superseded
#define FROM_cancelled(s)   ((s) == planned || (s) == pending_signature || (s) == authorized)
#define TO_cancelled        cancelled
#define FROM_refused(s)     ((s) == planned || (s) == pending_signature || (s) == authorized)
#define TO_refused          refused
#define FROM_dispatched(s)  ((s) == planned || (s) == authorized)
#define TO_dispatched       dispatched
#define FROM_retried(s)     ((s) == dispatched)
#define TO_retried          planned
#define FROM_succeeded(s)   ((s) == dispatched)
#define TO_succeeded        succeeded
#define FROM_failed(s)      ((s) == dispatched)
#define TO_failed           failed
#define FROM_interrupted(s) ((s) == dispatched)
#define TO_interrupted      interrupted

/* With TALLY, a search ends with how often each kind of move was made: pan does not say which lines of a d_step it reached. */
#ifdef TALLY
#define KINDS(P) P(planned) P(compensated) P(requested) P(reissued) P(signed) P(approved) P(rejected) P(expired) P(superseded) \
	P(cancelled) P(refused) P(dispatched) P(retried) P(succeeded) P(failed) P(interrupted)
#define NUMBER(kind) K_##kind,
#define SAY(kind) printf("moves: %s %lu\n", #kind, tally[K_##kind]);
c_decl {
	enum { KINDS(NUMBER) K_all };
	static unsigned long tally[K_all];
	static void say(void) { KINDS(SAY) }
}
#define MADE(kind) ; c_code { tally[K_##kind]++; }
#else
#define MADE(kind)
#endif

/* MOVE writes an entry of the kind, and moves the step (journal.Move, journal.Dispatch). */
#define MOVE(i, kind) assert(FROM_##kind(db.s[i].st)); db.s[i].st = TO_##kind MADE(kind)

/*
 * The safety properties, by name. ONLY picks one of them; a planted fault is found by the property that check.sh names.
 *   never_unsigned  a destructive step that runs has signatures of NEED different keys over its own payload; what is benign when
 *                   it is looked at alone runs without
 *   once            one payload runs once
 *   spent           a request waits if and only if its nonce is not spent
 *   looked_after    what runs was looked at after the permit, and is what was signed
 *   rejection_holds after a rejection was answered, the payload never runs, and the same wish is not asked again
 *   rotation_holds  after a rotation was answered, no removed key counts, neither for an approval nor for a step that runs
 *   other_gate      nothing is approved or runs that was signed for another gate id
 *   cool_off        nothing runs before its cool-off is over
 *   in_order        a step runs after those before it succeeded, when all of its job are authorized, and none ended otherwise
 *   wish_holds      nothing runs that the set did not wish for when the pass began
 *   in_time         nothing runs whose payload has expired
 *   alone           nothing runs while another step of its target is under way
 */
#ifndef ONLY
#define ONLY any
#endif
#define NR_any 0
#define NR_never_unsigned 1
#define NR_once 2
#define NR_spent 3
#define NR_looked_after 4
#define NR_rejection_holds 5
#define NR_rotation_holds 6
#define NR_other_gate 7
#define NR_cool_off 8
#define NR_in_order 9
#define NR_wish_holds 10
#define NR_in_time 11
#define NR_alone 12
#define NR2(x) NR_##x
#define NR1(x) NR2(x)
hidden byte never_unsigned = 1, once = 1, spent = 1, looked_after = 1, rejection_holds = 1, rotation_holds = 1, other_gate = 1, cool_off = 1,
	in_order = 1, wish_holds = 1, in_time = 1, alone = 1;
#define HOLDS(name, e) if :: (e) || (NR1(ONLY) != 0 && NR1(ONLY) != NR_##name) :: else -> name = 0; assert(name) fi

/* Fates of nonces (internal/nonce/nonce.go). lost: the database has no record of it. */
#define LOST 0
#define UNSPENT 1
#define USED 2
#define SPENT 3   /* rejected, cancelled, superseded, expired */

#define GONE 0    /* a look at a target that is another incarnation, or none */

/*
 * Three signatures can be made over a payload: 1 and 2 are with the same key, by one person and under another name; 4 is another
 * person's key.
 */
#define KEYS(m) ((((m) & 3) != 0) + (((m) & 4) != 0))
#ifdef FAULT_threshold_by_signature
#define COUNT(m) ((((m) & 1) != 0) + (((m) & 2) != 0) + (((m) & 4) != 0))
#else
#define COUNT(m) KEYS(m)
#endif
#define MET(m) (COUNT(m) >= NEED)

typedef Slot {
	mtype st;
	byte fp;    /* the fingerprint that the step names */
	byte n;     /* the nonce of its request, 0 if it has none */
	byte cnt;   /* the signatures that count */
	bit cool;   /* the cool-off is not over */
	bit off;    /* made from an operator's own payload */
	bit destr   /* its class */
};
typedef Base {
	Slot s[SLOTS];
	byte fate[PAYLOADS + 1];
	byte trust; /* the signatures that listed keys can make */
	byte refusedWish /* the wishes that operators rejected */
};
Base db, bak;
bit hasBak;

/* What the world knows, and no restore takes back. */
byte gate = 1;               /* the gate id; 0 is another gate */
byte made = 1;               /* payload 1 is of another gate, and was signed there */
byte payGate[PAYLOADS + 1];
byte payFp[PAYLOADS + 1];
byte payWish[PAYLOADS + 1];  /* operation, target and parameters: 1 and 2 of the first job, 3 of the second */
byte sig[PAYLOADS + 1];      /* whose keys signed it: 1 and 4 */
bit old[PAYLOADS + 1];       /* it expired, by a clock that does not go back */
byte ran[PAYLOADS + 1];      /* how often it ran */
bit answered[PAYLOADS + 1];  /* its rejection was answered */
byte listed = 7;             /* who may sign, by the newest rotation that was answered */
byte tfp[2];                 /* what a look at each target shows now */
bit unsafe[2];               /* a look shows that the benign step is destructive by now */
byte doc;                    /* what the document of the set wishes now: 0 nothing, 1 or 3 */
byte held;                  /* wishes that were rejected and not withdrawn since */

byte submits, crashes, backups, restores, changes, expiries, rotations, spoils, wishes, retries, owns;

/* What a crash forgets. */
bit up;
byte rules;                  /* the signers in force in the process */
byte apN, apM, apRules;      /* an approval between its checks and its transaction */
typedef Work {
	byte pc;   /* 0 idle, 1 has a permit, 2 has looked, 3 has used it, 4 has acted */
	byte slot; /* the slot of the permit */
	byte look; /* what the driver saw */
	bit bad;   /* that the step is destructive by what it saw */
	bit fresh; /* it looked after the permit */
	byte wish  /* what the set wished for when the pass began */
};
Work work[RUNNERS];

#define WISH(i) ((SECOND && (i) == OTHER) -> 3 : (i) + 1)
#define TARGET(i) (STEPS == 2 && (i) == 1)
#define FIRST(i) (!(SECOND && (i) == OTHER))      /* it is of the first job */
#define IN(i, k) (FIRST(i) == FIRST(k))
#define UNDOES(i) (COMP && (i) == BACK)
#define DISPATCHED(i) (db.s[i].st == dispatched)
#if SLOTS == 1
#define ANY(P) (P(0))
#elif SLOTS == 2
#define ANY(P) (P(0) || P(1))
#elif SLOTS == 3
#define ANY(P) (P(0) || P(1) || P(2))
#else
#error "at most three slots"
#endif

byte j; /* for loops within one d_step; always 0 between */
byte k;

/* internal/gate/read.go issue: a fresh nonce, and bytes of this gate id. */
inline issue(i, fpr) {
	assert(made < PAYLOADS);
	made++;
	payGate[made] = gate;
	payFp[made] = fpr;
	payWish[made] = WISH(i);
	db.s[i].fp = fpr;
	db.s[i].n = made;
#ifndef FAULT_reissue_keeps_signatures
	db.s[i].cnt = 0; /* journal.PutRequest drops them */
#endif
	db.fate[made] = UNSPENT;
}

/* internal/gate/read.go shut: an open step ends that did not run, and the nonce of its request is spent. The caller moves it. */
inline shutNonce(i) {
	if
	:: db.s[i].st == pending_signature -> db.fate[db.s[i].n] = SPENT
	:: else
	fi
}

/* What nothing reads any more of a step that ended is 0, so that equal futures are one state. */
inline clear(i) { db.s[i].n = 0; db.s[i].fp = 0; db.s[i].cnt = 0; db.s[i].cool = 0; db.s[i].off = 0; db.s[i].destr = 0 }

/* internal/gate/trash.go endJob, cancelRest, compensate: cause ended without success. */
inline endJob(cause) {
#ifndef FAULT_rest_goes_on
	if
	:: UNDOES(cause)
	:: else ->
		j = 0;
		do
		:: j < SLOTS ->
			if
			:: IN(j, cause) && OPEN(db.s[j].st) && !DISPATCHED(j) -> shutNonce(j); MOVE(j, cancelled); clear(j)
			:: else
			fi;
			j++
		:: else -> break
		od;
		j = 0;
#if COMP
		if
		:: FIRST(cause) && db.s[0].st == succeeded && !DISPATCHED(1) && db.s[BACK].st == unknown ->
			MOVE(BACK, compensated);
			db.s[BACK].destr = 0
		:: else
		fi
#endif
	fi;
#endif
	skip
}

/* internal/gate/read.go close: shut and endJob. kind is the entry's. */
#define CLOSE(i, kind) shutNonce(i); MOVE(i, kind); clear(i); endJob(i)

/*
 * internal/gate/submit.go joinOrInsert, insert; internal/gate/rejected.go notRejected. The world submits the first job; a desired
 * set does it in its pass.
 */
inline accept(i, bad) {
	HOLDS(rejection_holds, !bad || !(held & (1 << WISH(i))));
	db.s[i].destr = bad;
	db.s[i].cnt = 0; db.s[i].off = 0; db.s[i].cool = 0; db.s[i].n = 0;
	db.s[i].st = unknown;
	if
	:: bad -> issue(i, tfp[TARGET(i)]); MOVE(i, requested)
	:: else -> db.s[i].fp = tfp[TARGET(i)]; MOVE(i, planned)
	fi
}

#ifdef FAULT_rejected_wish_asked_again
#define HELD(i) 0
#else
#define HELD(i) (db.refusedWish & (1 << WISH(i)))
#endif

#define FREE(i) (!OPEN(db.s[i].st) && !HELD(i) && tfp[TARGET(i)] != GONE)
proctype Requester() {
end:	do
	:: d_step { made != 0 -> skip } /* nothing has to happen */
#if !DESIRED
	:: d_step { up && submits < SUBMITS && FREE(0) && FREE(STEPS - 1) && FREE(STEPS - 1 + COMP) -> submits++;
		accept(0, !BENIGN);
#if STEPS == 2
		accept(1, 1);
#endif
#if COMP
		db.s[BACK].st = unknown; db.s[BACK].n = 0; db.s[BACK].cnt = 0;
#endif
		skip }
#endif
#if DESIRED
	:: d_step { wishes < WISHES && doc != 1 -> wishes++; doc = 1 }
	:: d_step { wishes < WISHES && doc != 3 -> wishes++; doc = 3 }
	:: d_step { wishes < WISHES && doc != 0 -> wishes++; doc = 0 }
#endif
	/* What others do to the targets. */
	:: d_step { changes < CHANGES && tfp[0] != 1 -> changes++; tfp[0] = 1 }
	:: d_step { changes < CHANGES && tfp[0] != 2 -> changes++; tfp[0] = 2 }
	:: d_step { changes < CHANGES && tfp[0] != GONE -> changes++; tfp[0] = GONE }
#if STEPS == 2
	:: d_step { changes < CHANGES && tfp[1] != 2 -> changes++; tfp[1] = 2 }
#endif
	/* An operator writes a payload, without the gate (docs/formats/signatures.md). */
	:: d_step { owns < OWNS && tfp[0] != GONE -> owns++; assert(made < PAYLOADS); made++; payGate[made] = gate; payFp[made] = tfp[0];
		payWish[made] = 3 }
	:: d_step { spoils < SPOILS && !unsafe[0] -> spoils++; unsafe[0] = 1 }
	od
}

/* The request of payload pn, by the nonce's record; SLOTS if the step has another payload by now. */
inline requestOf(pn) {
	k = 0;
	do
	:: k < SLOTS && db.s[k].n != pn -> k++
	:: else -> break
	od
}

/*
 * internal/gate/approve.go verified, approve (up to its transaction); internal/authz/verify.go Approval. A caller presents an envelope
 * with the signatures m over payload nn: made just now, or long ago. apM is not 0 while one is between check and transaction.
 * That a refused envelope changes nothing is modelled by not taking it.
 */
#ifdef FAULT_verify_any_gate
#define OURS(nn) 1
#else
#define OURS(nn) (payGate[nn] == gate)
#endif
#define WAITSFOR(i, nn) (db.s[i].st == pending_signature && db.s[i].n == nn && !STALE(i))
#define STALE(i) (db.s[i].fp != tfp[TARGET(i)])
#if SLOTS == 1
#define WANTED(nn) WAITSFOR(0, nn)
#elif SLOTS == 2
#define WANTED(nn) (WAITSFOR(0, nn) || WAITSFOR(1, nn))
#else
#define WANTED(nn) (WAITSFOR(0, nn) || WAITSFOR(1, nn) || WAITSFOR(2, nn))
#endif
#define NEW(nn) (SECOND && !DESIRED && db.fate[nn] == LOST && !OPEN(db.s[OTHER].st) && payFp[nn] == tfp[0])
#define TRY(nn, m) :: d_step { up && apM == 0 && made >= nn && OURS(nn) && !old[nn] && (rules & m) == m && \
	(db.fate[nn] == UNSPENT && WANTED(nn) || NEW(nn)) -> \
	apN = nn; apM = m; apRules = rules }

/* Which envelopes there are: with one signature and, of two that are needed, with two, of two people or of one under two names. */
#if NEED > 1
#define ALL(nn) TRY(nn, 1) TRY(nn, 2) TRY(nn, 4) TRY(nn, 3) TRY(nn, 5)
#elif ROTATIONS
#define ALL(nn) TRY(nn, 1) TRY(nn, 4)
#else
#define ALL(nn) TRY(nn, 1) /* one key is as another */
#endif

/* internal/gate/count.go uncount, split: what no longer counts by the rules of the envelope. */
#ifdef FAULT_uncount_forgotten
#define KEPT(c) (c)
#else
#define KEPT(c) ((c) & apRules)
#endif

/* internal/gate/count.go addSigned: one signature for each person and key. */
#ifdef FAULT_threshold_by_signature
#define ADD(c, m) ((c) | (m))
#else
#define ADD(c, m) ((c) | ((KEYS((c) | ((m) & 3)) > KEYS(c)) -> ((((m) & 1) != 0) -> 1 : 2) : 0) | ((m) & 4))
#endif

/* internal/gate/count.go authorize, in the transaction of count. */
inline authorize(i) {
	HOLDS(other_gate, payGate[db.s[i].n] == gate);
	HOLDS(rotation_holds, KEYS(db.s[i].cnt & listed) >= NEED);
#ifndef FAULT_nonce_not_spent_with_the_decision
	db.fate[db.s[i].n] = USED;
#endif
	MOVE(i, approved);
	db.s[i].cool = COOL;
	HOLDS(spent, db.fate[db.s[i].n] == USED)
}

/* The world keeps whose keys signed what was taken. */
#define SIGNED sig[apN] = sig[apN] | (((apM & 3) != 0) | (apM & 4))

proctype Approver() {
	byte c;
end:	do
	:: d_step { made != 0 -> skip } /* nothing has to happen */
	ALL(1) ALL(2) ALL(3)
#if PAYLOADS > 3
	ALL(4)
#endif
#if PAYLOADS > 4
	ALL(5)
#endif
#if PAYLOADS > 5
	ALL(6)
#endif
#if PAYLOADS > 6
	ALL(7) ALL(8) ALL(9)
#endif
	/* internal/gate/approve.go checkApproval, again in the transaction; internal/gate/count.go count. */
	:: d_step { up && apM != 0 ->
		if
#ifndef FAULT_rules_moved_unseen
		:: apRules != rules  /* errRulesMoved: it is verified anew */
#endif
		:: old[apN]
		:: else ->
			requestOf(apN);
			if
			:: db.fate[apN] == UNSPENT && k < SLOTS && db.s[k].st == pending_signature && db.s[k].fp == tfp[TARGET(k)] ->
				SIGNED;
				c = KEPT(db.s[k].cnt);
				db.s[k].cnt = ADD(c, apM);
				if
				:: db.s[k].cnt != c && MET(db.s[k].cnt) -> authorize(k)
				:: db.s[k].cnt != c && !MET(db.s[k].cnt) -> MOVE(k, signed)
				:: else -> db.s[k].cnt = c
				fi
#if SECOND && !DESIRED
			/* internal/gate/present.go offline, planOffline, insertOffline: a payload that the gate does not know. */
			:: db.fate[apN] == LOST && !OPEN(db.s[OTHER].st) && payFp[apN] == tfp[0] && payWish[apN] != 2 ->
				SIGNED;
				db.s[OTHER].st = unknown;
				db.s[OTHER].destr = 1; db.s[OTHER].off = 1; db.s[OTHER].cool = 0;
				db.s[OTHER].fp = payFp[apN]; db.s[OTHER].n = apN;
				db.s[OTHER].cnt = ADD(0, apM);
				MOVE(OTHER, requested);
#ifdef FAULT_offline_nonce_not_kept
				if
				:: MET(db.s[OTHER].cnt) -> db.fate[apN] = USED; authorize(OTHER); db.fate[apN] = LOST
				:: else -> db.s[OTHER].st = unknown; db.s[OTHER].n = 0
				fi
#else
				db.fate[apN] = UNSPENT;
				if
				:: MET(db.s[OTHER].cnt) -> authorize(OTHER)
				:: else -> MOVE(OTHER, signed)
				fi
#endif
#endif
			:: else
			fi;
			k = 0; c = 0
		fi;
		apN = 0; apM = 0; apRules = 0 }
	od
}

/* internal/gate/withdraw.go Reject, checkRejection, rejectOnce. An operator rejects what waits or is approved. */
#ifdef FAULT_rejection_after_approval_ignored
#define CANREJECT(i) (db.s[i].st == pending_signature)
#define ANSWERS(i) (db.s[i].st == authorized)
#else
#define CANREJECT(i) (db.s[i].st == pending_signature || db.s[i].st == authorized)
#define ANSWERS(i) 0
#endif
#define REJECT(i) \
	:: d_step { up && CANREJECT(i) -> answered[db.s[i].n] = 1; db.refusedWish = db.refusedWish | (1 << WISH(i)); \
		held = held | (1 << WISH(i)); CLOSE(i, rejected) } \
	:: d_step { up && ANSWERS(i) -> answered[db.s[i].n] = 1 }

proctype Rejecter() {
end:	do
	:: d_step { made != 0 -> skip } /* nothing has to happen */
	REJECT(0)
#if SLOTS > 1
	REJECT(1)
#endif
#if SLOTS > 2
	REJECT(2)
#endif
	od
}

/* internal/gate/permit.go fellThrough, ready, heldUp; internal/gate/delay.go holds. */
#define FELL(x) (!UNDOES(x) && ENDED(db.s[x].st) && db.s[x].st != succeeded)
#define WAITS(x) (db.s[x].destr && !UNDOES(x) && (db.s[x].st == pending_signature || db.s[x].st == planned))
#define BEFORE(x, i) ((x) < (i) && OPEN(db.s[x].st) && !(UNDOES(i) && db.s[x].st == pending_signature))
#ifdef FAULT_order_ignored
#define BLOCKS(x, i) 0
#else
#define BLOCKS(x, i) (IN(x, i) && (BEFORE(x, i) || (!UNDOES(i) && (FELL(x) || WAITS(x)))))
#endif
#ifdef FAULT_cool_off_skipped
#define COOLS(x) 0
#else
#define COOLS(x) (db.s[x].st == authorized && db.s[x].cool && !old[db.s[x].n])
#endif
#define HELDUP(x, i) (IN(x, i) && !UNDOES(i) && COOLS(x))
#define STOPS(x, i) ((x) < SLOTS && (BLOCKS(x, i) || HELDUP(x, i)))
#if SLOTS == 1
#define READY(i) ((db.s[i].st == planned || db.s[i].st == authorized) && !STOPS(0, i))
#elif SLOTS == 2
#define READY(i) ((db.s[i].st == planned || db.s[i].st == authorized) && !STOPS(0, i) && !STOPS(1, i))
#else
#define READY(i) ((db.s[i].st == planned || db.s[i].st == authorized) && !STOPS(0, i) && !STOPS(1, i) && !STOPS(2, i))
#endif

/* internal/log/journal/steps.go Busy, internal/gate/looks.go Next: another step of the target is under way. */
#define SAME(x, i) (TARGET(x) == TARGET(i) && DISPATCHED(x))
#if SLOTS == 1
#define UNDERWAY(i) SAME(0, i)
#elif SLOTS == 2
#define UNDERWAY(i) (SAME(0, i) || SAME(1, i))
#else
#define UNDERWAY(i) (SAME(0, i) || SAME(1, i) || SAME(2, i))
#endif

#ifdef FAULT_busy_target_ignored
#define BUSY(i) 0
#else
#define BUSY(i) UNDERWAY(i)
#endif

#define ME work[me]
#define S db.s[ME.slot]

/* What holds of every step at its dispatch. It looks at the world, not at what the gate checked. */
inline atDispatch() {
	HOLDS(looked_after, ME.fresh && (S.destr -> ME.look == payFp[S.n] && ME.look != GONE : ME.look != GONE));
	HOLDS(never_unsigned, (!S.destr && !ME.bad) ||
		(S.destr && S.n != 0 && KEYS(sig[S.n]) >= NEED && (payWish[S.n] == WISH(ME.slot) || S.off)));
	HOLDS(rejection_holds, !answered[S.n]);
	HOLDS(rotation_holds, !S.destr || KEYS(sig[S.n] & listed) >= NEED);
	HOLDS(other_gate, !S.destr || payGate[S.n] == gate);
	HOLDS(cool_off, !S.cool);
	HOLDS(in_time, !S.destr || !old[S.n]);
	HOLDS(alone, !UNDERWAY(ME.slot));
#if STEPS == 2
	HOLDS(in_order, UNDOES(ME.slot) || !FIRST(ME.slot) || (db.s[0].st == succeeded || ME.slot == 0) && !FELL(0) && !FELL(1)
		&& db.s[1].st != pending_signature && db.s[1].st != planned);
#endif
#if DESIRED
	HOLDS(wish_holds, ME.wish == WISH(ME.slot));
#endif
	skip
}

/* internal/gate/permit.go dispatchSigned, dispatchBenign, askInstead, run, end. */
#ifdef FAULT_rotation_not_asked_at_dispatch
#define STILL(c) (c)
#else
#define STILL(c) ((c) & rules)
#endif
#ifdef FAULT_binding_without_gate
#define BOUND(pn) 1
#else
#define BOUND(pn) (payGate[pn] == gate)
#endif
#ifdef FAULT_expiry_not_asked_at_dispatch
#define LATE(pn) 0
#else
#define LATE(pn) old[pn]
#endif
inline use() {
	if
#ifdef FAULT_dispatch_without_compare_and_set
	:: S.st == dispatched && S.destr -> ME.pc = 3; S.st = authorized; MOVE(ME.slot, dispatched)
#endif
	:: !READY(ME.slot) || BUSY(ME.slot) -> ME.pc = 0           /* it waits, or is over */
	:: else ->
		if
		:: S.st == authorized && LATE(S.n) -> CLOSE(ME.slot, expired); ME.pc = 0
		:: S.st == authorized && !LATE(S.n) && !BOUND(S.n) -> CLOSE(ME.slot, refused); ME.pc = 0
		:: S.st == authorized && !LATE(S.n) && BOUND(S.n) ->
			if
			:: !MET(STILL(S.cnt)) -> CLOSE(ME.slot, refused); ME.pc = 0
			:: MET(STILL(S.cnt)) && ME.look != S.fp -> CLOSE(ME.slot, refused); ME.pc = 0
			:: else -> atDispatch(); MOVE(ME.slot, dispatched); ME.pc = 3
			fi
		:: S.st == planned && ME.look == GONE -> CLOSE(ME.slot, refused); ME.pc = 0
#ifndef FAULT_benign_not_classified_again
		:: S.st == planned && ME.look != GONE && ME.bad ->
			if
			:: !UNDOES(ME.slot) && HELD(ME.slot) -> CLOSE(ME.slot, refused) /* mayAskNow */
			:: else -> S.destr = 1; issue(ME.slot, ME.look); MOVE(ME.slot, requested)
			fi;
			ME.pc = 0
		:: S.st == planned && ME.look != GONE && !ME.bad -> atDispatch(); MOVE(ME.slot, dispatched); ME.pc = 3
#else
		:: S.st == planned && ME.look != GONE -> atDispatch(); MOVE(ME.slot, dispatched); ME.pc = 3
#endif
		fi
	fi;
	if
	:: ME.pc == 0 -> ME.slot = 0; ME.look = 0; ME.bad = 0; ME.fresh = 0; ME.wish = 0
	:: else -> ME.look = 0; ME.bad = 0; ME.fresh = 0; ME.wish = 0
	fi
}

/* internal/gate/record.go Record, record; internal/reconcile/diff.go Resolve. The step i ended so. */
inline succeeds(i) {
	MOVE(i, succeeded); clear(i);
#if STEPS == 2
	if
	:: !UNDOES(i) && FIRST(i) && (FELL(0) || FELL(1)) -> endJob(i) /* over(steps) */
	:: else
	fi
#endif
	skip
}
inline fails(i) { MOVE(i, failed); clear(i); endJob(i) }
inline breaks(i) { MOVE(i, interrupted); clear(i); endJob(i) }

inline idle() { ME.pc = 0; ME.slot = 0 }

/* internal/gate/withdraw.go Withdraw, withdrawn: the set no longer wishes for the step. */
#ifdef FAULT_withdrawn_approval_stays
#define WITHDRAWS(i) (db.s[i].st == pending_signature)
#else
#define WITHDRAWS(i) (db.s[i].st == pending_signature || db.s[i].st == authorized)
#endif
inline withdraw(i) {
	if
	:: doc != WISH(i) && WITHDRAWS(i) && db.s[i].st == pending_signature -> CLOSE(i, superseded)
	:: doc != WISH(i) && WITHDRAWS(i) && db.s[i].st == authorized -> CLOSE(i, cancelled)
	:: else
	fi;
	if
	:: doc == 0 -> db.refusedWish = 0; held = 0
	:: else
	fi
}

/* A step that was dispatched and that no worker has: internal/reconcile/process.go Recover. */
#if RUNNERS == 1
#define MINE(i) (work[0].pc >= 3 && work[0].slot == i)
#else
#define MINE(i) (work[0].pc >= 3 && work[0].slot == i || work[1].pc >= 3 && work[1].slot == i)
#endif
#define LOOSE(i) (DISPATCHED(i) && !MINE(i))
/* internal/gate/record.go record (again), over: a benign step is tried again, but not when its job ended meanwhile. */
#ifdef FAULT_tried_again_after_the_job_ended
#define AGAIN(i) (!db.s[i].destr)
#elif STEPS == 2
#define AGAIN(i) (!db.s[i].destr && (UNDOES(i) || !FIRST(i) || !FELL(0) && !FELL(1)))
#else
#define AGAIN(i) (!db.s[i].destr)
#endif
#ifdef FAULT_cut_off_step_runs_again
#define RESOLVE(i) :: d_step { up && LOOSE(i) -> db.s[i].st = (db.s[i].destr -> authorized : planned) }
#elif defined(FAULT_cut_off_step_is_forgotten)
#define RESOLVE(i)
#else
#define RESOLVE(i) \
	:: d_step { up && LOOSE(i) -> succeeds(i) } \
	:: d_step { up && LOOSE(i) && db.s[i].destr -> breaks(i) } \
	:: d_step { up && LOOSE(i) && AGAIN(i) -> MOVE(i, retried) } \
	:: d_step { up && LOOSE(i) && !db.s[i].destr -> fails(i) }
#endif

/* internal/gate/permit.go Permit, internal/gate/looks.go Next. Nothing is run while a step of the target is under way. */
#if DESIRED
#define PASS (ME.pc == 5)
#else
#define PASS (ME.pc == 0)
#endif
#ifdef FAULT_look_before_the_permit_alone
#define PERMIT(x) :: d_step { up && PASS && READY(x) && !BUSY(x) -> ME.slot = x; ME.pc = 2; ME.look = S.fp; ME.bad = 0 }
#else
#define PERMIT(x) :: d_step { up && PASS && READY(x) && !BUSY(x) -> ME.slot = x; ME.pc = 1 }
#endif

proctype Worker(byte me) {
end:	do
	RESOLVE(0)
#if SLOTS > 1
	RESOLVE(1)
#endif
#if SLOTS > 2
	RESOLVE(2)
#endif
#if DESIRED
	/* internal/reconcile/process.go process: withdraw, and pursue with Gate.Want. A pass begins if there is something to do and
	   nothing under way (attend). */
	:: d_step { up && ME.pc == 0 && !LOOSE(0) && !LOOSE(OTHER) && (doc != 0 && submits < SUBMITS || OPEN(db.s[0].st) || OPEN(db.s[OTHER].st) || db.refusedWish) ->
		ME.wish = doc;
		withdraw(0); withdraw(OTHER);
		if
		:: doc == 1 && !OPEN(db.s[0].st) && !HELD(0) && tfp[0] != GONE && submits < SUBMITS -> submits++; accept(0, 1)
		:: doc == 3 && !OPEN(db.s[OTHER].st) && !HELD(OTHER) && tfp[0] != GONE && submits < SUBMITS -> submits++; accept(OTHER, 1)
		:: else
		fi;
		if
		:: READY(0) || READY(OTHER) -> ME.pc = 5
		:: else -> ME.wish = 0
		fi }
	:: d_step { up && ME.pc == 5 && !READY(0) && !READY(OTHER) -> ME.pc = 0; ME.wish = 0 }
#endif
	PERMIT(0)
#if SLOTS > 1
	PERMIT(1)
#endif
#if SLOTS > 2
	PERMIT(2)
#endif
	/* internal/driver/run.go run: Prepare looks again. */
	:: d_step { up && ME.pc == 1 -> ME.look = tfp[TARGET(ME.slot)]; ME.bad = unsafe[TARGET(ME.slot)]; ME.fresh = 1; ME.pc = 2 }
	/* internal/gate/permit.go Use, dispatch. */
	:: d_step { up && ME.pc == 2 -> use() }
	/* The driver acts. What it does may leave the target as it looked. */
	:: d_step { up && ME.pc == 3 ->
		if
		:: S.destr -> ran[S.n]++; HOLDS(once, ran[S.n] <= 1)
		:: else
		fi;
		ME.pc = 4 }
	:: d_step { up && ME.pc == 4 && DISPATCHED(ME.slot) -> succeeds(ME.slot); idle() }
#if RUNNERS > 1
	:: d_step { up && ME.pc == 4 && !DISPATCHED(ME.slot) -> idle() }
#endif
#if FAILS
	:: d_step { up && ME.pc == 4 && DISPATCHED(ME.slot) -> fails(ME.slot); idle() }
	:: d_step { up && ME.pc == 4 && DISPATCHED(ME.slot) && S.destr -> breaks(ME.slot); idle() }
	:: d_step { up && ME.pc == 4 && DISPATCHED(ME.slot) && AGAIN(ME.slot) && retries < 1 -> retries++; MOVE(ME.slot, retried); idle() }
#ifdef FAULT_signed_step_is_tried_again
	:: d_step { up && ME.pc == 4 && DISPATCHED(ME.slot) && S.destr -> S.st = authorized; idle() }
#endif
#endif
	od
}

/* internal/gate/refresh.go Refresh, refreshOne, renew, renewForeign; internal/gate/read.go reissue. */
#ifdef FAULT_foreign_payload_stays
#define DEAD(i) (old[db.s[i].n])
#else
#define DEAD(i) (old[db.s[i].n] || payGate[db.s[i].n] != gate)
#endif
#define REISSUE(i) db.fate[db.s[i].n] = SPENT; issue(i, tfp[TARGET(i)]); MOVE(i, reissued)
#define KEEP(i) \
	:: d_step { up && db.s[i].st == pending_signature && tfp[TARGET(i)] == GONE -> CLOSE(i, superseded) } \
	:: d_step { up && db.s[i].st == pending_signature && tfp[TARGET(i)] != GONE && db.s[i].off && DEAD(i) -> CLOSE(i, expired) } \
	:: d_step { up && db.s[i].st == pending_signature && tfp[TARGET(i)] != GONE && db.s[i].off && STALE(i) -> CLOSE(i, superseded) } \
	:: d_step { up && db.s[i].st == pending_signature && tfp[TARGET(i)] != GONE && !db.s[i].off && (DEAD(i) || STALE(i)) -> REISSUE(i) }

proctype Keeper() {
end:	do
	KEEP(0)
#if SLOTS > 1
	KEEP(1)
#endif
#if SLOTS > 2
	KEEP(2)
#endif
	od
}

/* Time passes: a cool-off ends. A payload expires, a spent nonce of an expired payload is forgotten (internal/nonce Prune). */
#ifdef FAULT_cool_off_never_ends
#define COOLED(i) :: d_step { made == 0 -> skip }
#else
#define COOLED(i) :: d_step { db.s[i].st == authorized && db.s[i].cool -> db.s[i].cool = 0 }
#endif
#define HAS(i, nn) (OPEN(db.s[i].st) && !DISPATCHED(i) && db.s[i].n == nn)
#if SLOTS == 1
#define CURRENT(nn) HAS(0, nn)
#elif SLOTS == 2
#define CURRENT(nn) (HAS(0, nn) || HAS(1, nn))
#else
#define CURRENT(nn) (HAS(0, nn) || HAS(1, nn) || HAS(2, nn))
#endif
/* Of a payload that nothing waits or is approved by, only Prune asks whether it expired. */
#define EXPIRE(nn) :: d_step { expiries < EXPIRIES && made >= nn && !old[nn] && (PRUNE || CURRENT(nn)) -> expiries++; old[nn] = 1 }
#ifdef FAULT_nonce_forgotten_before_its_payload_expired
#define FORGET(nn) :: d_step { up && db.fate[nn] > UNSPENT -> db.fate[nn] = LOST }
#else
#define FORGET(nn) :: d_step { up && old[nn] && db.fate[nn] > UNSPENT -> db.fate[nn] = LOST }
#endif
proctype Clock() {
end:	do
	COOLED(0)
#if SLOTS > 1
	COOLED(1)
#endif
#if SLOTS > 2
	COOLED(2)
#endif
	od
}

proctype Expiry() {
end:	do
	:: d_step { made != 0 -> skip } /* nothing has to happen */
	EXPIRE(2) EXPIRE(3)
#if PAYLOADS > 3
	EXPIRE(4)
#endif
#if PAYLOADS > 4
	EXPIRE(5)
#endif
#if PAYLOADS > 5
	EXPIRE(6)
#endif
#if PAYLOADS > 6
	EXPIRE(7) EXPIRE(8) EXPIRE(9)
#endif
#if PRUNE
	FORGET(2) FORGET(3)
#if PAYLOADS > 3
	FORGET(4)
#endif
#if PAYLOADS > 4
	FORGET(5)
#endif
#if PAYLOADS > 5
	FORGET(6)
#endif
#if PAYLOADS > 6
	FORGET(7)
#endif
#endif
	od
}

/* internal/gate/rules.go Rotate, replace: the list is committed first, and in force and answered then. */
#define ROTATE(left) :: d_step { up && rotations < ROTATIONS && rules == db.trust -> rotations++; db.trust = db.trust & left }
proctype Rotation() {
end:	do
	:: d_step { made != 0 -> skip } /* nothing has to happen */
	ROTATE(3)
	ROTATE(4)
	od
}

proctype InForce() {
end:	do
	:: d_step { up && rules != db.trust -> rules = db.trust; listed = listed & db.trust }
	od
}

/* What a crash forgets. */
inline crash() {
	up = 0; rules = 0; apN = 0; apM = 0; apRules = 0;
	work[0].pc = 0; work[0].slot = 0; work[0].look = 0; work[0].bad = 0; work[0].fresh = 0; work[0].wish = 0;
#if RUNNERS > 1
	work[1].pc = 0; work[1].slot = 0; work[1].look = 0; work[1].bad = 0; work[1].fresh = 0; work[1].wish = 0;
#endif
	skip
}

inline copySlot(to, from, x) {
	to.s[x].st = from.s[x].st; to.s[x].fp = from.s[x].fp; to.s[x].n = from.s[x].n; to.s[x].cnt = from.s[x].cnt;
	to.s[x].cool = from.s[x].cool; to.s[x].off = from.s[x].off; to.s[x].destr = from.s[x].destr
}
inline copy(to, from) {
	copySlot(to, from, 0);
#if SLOTS > 1
	copySlot(to, from, 1);
#endif
#if SLOTS > 2
	copySlot(to, from, 2);
#endif
	j = 0;
	do
	:: j <= PAYLOADS -> to.fate[j] = from.fate[j]; j++
	:: else -> break
	od;
	j = 0;
	to.refusedWish = from.refusedWish
}

/* The daemon starts (internal/host/life/open.go): the rules are those of the database. */
proctype Life() {
end:	do
	:: d_step { !up -> up = 1; rules = db.trust; listed = listed & db.trust }
	od
}

/* Crashes, backups (internal/host/life/backup.go) and restores (internal/host/life/restore.go prepare, init.go newLife). */
proctype Fate() {
end:	do
	:: d_step { made != 0 -> skip } /* nothing has to happen */
	:: d_step { up && crashes < CRASHES -> crashes++; crash() }
	:: d_step { backups < BACKUPS -> backups++; hasBak = 1; copy(bak, db); bak.trust = db.trust }
	:: d_step { hasBak && restores < RESTORES && crashes > 0 -> restores++; crash();
		copy(db, bak);
#ifdef FAULT_restore_takes_the_signers_of_the_backup
		db.trust = bak.trust;
#endif
		/* db.trust stays: internal/host/signers Former.Carry keeps the list of the replaced database. */
#ifndef FAULT_restore_keeps_the_gate_id
		gate++;
#endif
		held = held & db.refusedWish; /* what was rejected since is unknown to the gate (docs/guides/backup-and-restore.md) */
		j = 0;
		do
		:: j <= PAYLOADS -> old[j] = 0; j++ /* the mark is set to the machine's clock, wherever that is */
		:: else -> break
		od;
		j = 0 }
	od
}

init {
	atomic {
#ifdef TALLY
		c_code { atexit(say); };
#endif
		tfp[0] = 1; tfp[1] = 1;
		payFp[1] = 1; payWish[1] = 1;
		db.s[0].st = unknown; bak.s[0].st = unknown;
#if SLOTS > 1
		db.s[1].st = unknown; bak.s[1].st = unknown;
#endif
#if SLOTS > 2
		db.s[2].st = unknown; bak.s[2].st = unknown;
#endif
		db.trust = 7; rules = 7; up = 1;
		run Requester(); run Approver(); run Rejecter(); run Worker(0);
#if RUNNERS > 1
		run Worker(1);
#endif
		run Keeper(); run Clock(); run Expiry();
#if ROTATIONS
		run Rotation(); run InForce();
#endif
		run Life(); run Fate()
	}
}

/*
 * Liveness, with weak fairness: every process of the gate that can go on does. What others do never has to happen, and all that
 * hinders is bounded, so that "again and again" means "in the end for good".
 *   approved_runs  what may run (authorized or planned, nothing of its job waits for people) or runs does not stay so: it ends with a
 *                  named state, or a restore takes it back
 *   answerable     what waits for people waits with a payload of this gate, of the target as it is, that has not expired
 */
#define ASKS(i) (db.s[i].st == pending_signature)
#if STEPS == 2
#define JOBASKS (ASKS(0) || ASKS(1))
#else
#define JOBASKS ASKS(0)
#endif
#define HOT(i) (DISPATCHED(i) || (db.s[i].st == authorized || db.s[i].st == planned) && (!FIRST(i) || UNDOES(i) || !JOBASKS))
#define DEADEND(i) (ASKS(i) && (old[db.s[i].n] || payGate[db.s[i].n] != gate || STALE(i)))
ltl approved_runs { [] <> !ANY(HOT) }
ltl answerable { [] <> !ANY(DEADEND) }
