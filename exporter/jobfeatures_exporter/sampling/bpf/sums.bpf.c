// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Sums the resource usage of tasks in the kernel by control group; the sums are exact and never decrease.
 *
 * Rules: a task's own counters only grow. Task storage holds their values at the time of the last
 * charge; charging adds the difference to the record of the task's group, under the task's lock. A
 * task is charged by the iterator (a sample), at its exit, when it is freed (the rest), and when it
 * is moved (to the group that it leaves). So sums telescope: order does not matter, and charging
 * twice adds nothing. Counters of the whole process (signal->*) are not used: they include those of
 * children that the process has waited for.
 *
 * Only fields that are read are declared, and relocated to their offsets in the running kernel.
 * Kernel memory is read through typed pointers and never by bpf_probe_read*, which a locked-down
 * kernel refuses. */

typedef unsigned char u8;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef _Bool bool;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define UINT(name, value) int (*name)[value]
#define TYPE(name, type) type *name

/* Constants of the kernel's interface: include/uapi/linux/bpf.h. */
enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_TASK_STORAGE = 29, NO_PREALLOC = 1, CREATE = 1, ANY = 0, NOEXIST = 1 };
struct bpf_spin_lock {
	u32 val;
};
struct task_struct;
struct __sk_buff {
	u32 len, unread[40], gso_segs;
};
static void *(*const lookup)(void *map, const void *key) = (void *)1;
static long (*const update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const delete)(void *map, const void *key) = (void *)3;
static long (*const lock)(struct bpf_spin_lock *lock) = (void *)93;
static long (*const unlock)(struct bpf_spin_lock *lock) = (void *)94;
static long (*const load)(struct __sk_buff *packet, u32 offset, void *to, u32 bytes) = (void *)26;
static u64 (*const group_of_packet)(struct __sk_buff *packet) = (void *)79;
static u64 (*const above)(struct __sk_buff *packet, int level) = (void *)83;
static void *(*const storage_of)(void *map, struct task_struct *task, void *value, u64 flags) = (void *)156;

/* The kernel's structures, with the fields that are read. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct kernfs_node {
	u64 id;
};
struct cgroup_root {
	u32 subsys_mask;
	s32 hierarchy_id;
};
struct cgroup;
struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
	u32 flags;
};
struct cgroup {
	struct cgroup_subsys_state self;
	s32 level;
	struct kernfs_node *kn;
	struct cgroup_root *root;
};
struct css_set {
	struct cgroup_subsys_state *subsys[1];
	struct cgroup *dfl_cgrp;
};
struct task_io_accounting {
	u64 rchar, wchar, syscr, syscw, read_bytes, write_bytes, cancelled_write_bytes;
};
struct sched_entity {
	u64 sum_exec_runtime;
};
struct sched_info {
	u64 run_delay;
};
typedef struct {
	u32 val;
} kuid_t;
struct cred {
	kuid_t euid;
};
struct task_struct {
	u32 __state;
	s32 exit_state;
	u32 flags;
	s32 pid, tgid;
	unsigned long nvcsw, nivcsw, maj_flt;
	struct css_set *cgroups;
	const struct cred *cred;
	struct sched_entity se;
	struct sched_info sched_info;
	struct task_io_accounting ioac;
};
struct task_struct___before_5_14 {
	long state;
};
struct bpf_iter_meta {
	u64 session_id, seq_num;
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};
#pragma clang attribute pop
enum cgroup_subsys_id { cpuacct_cgrp_id = 1000, freezer_cgrp_id };
enum { TCP = 6, UDP = 17 };
enum { PF_EXITING = 4, UNINTERRUPTIBLE = 2, NOLOAD = 0x400, TASK_NEW = 0x800, EXIT_DEAD = 16, CSS_ONLINE = 2 };

/* The figures charged. records.py in this directory reads the records: the order has to be the same. */
enum { CPU, RCHAR, WCHAR, SYSCR, SYSCW, READ, WRITTEN, CANCELLED, DELAY, MAJOR, VOLUNTARY, INVOLUNTARY, TASKS,
       RECEIVED_BYTES, RECEIVED_PACKETS, SENT_BYTES, SENT_PACKETS, FIGURES };
#define OF_TASKS RECEIVED_BYTES
#define LEVELS 12 /* levels of ancestors recorded, from below the root: jobs are not deeper */
#define DEPTH 64
#define OF_FREEZER (1ULL << 63) /* inodes are unique within a hierarchy only */

struct record {
	u64 look, total[FIGURES];
	u64 ancestors[LEVELS]; /* from below the root, including the group itself */
	u32 processes, threads, running, blocked; /* in sample `look` */
	u32 user; /* uid of a task that is not root's, 0 if there is none */
	u8 ready, removed, unused[2];
};
struct last {
	struct bpf_spin_lock lock;
	u32 charged;
	u64 group, value[OF_TASKS];
};

/* Elements are allocated one by one, and never evicted. A full map charges group 0, which the loader creates. */
struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 16384);
	UINT(map_flags, NO_PREALLOC);
	TYPE(key, u64);
	TYPE(value, struct record);
} groups SEC(".maps");
struct { /* one record of zeros, which is too large for the stack */
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct record);
} blanks SEC(".maps");
struct {
	UINT(type, MAP_TASK_STORAGE);
	UINT(map_flags, NO_PREALLOC);
	TYPE(key, int);
	TYPE(value, struct last);
} lasts SEC(".maps");
/* Tasks, by address, that exited when they had no storage: all their usage is due when they are freed. */
struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 4096);
	UINT(map_flags, NO_PREALLOC);
	TYPE(key, u64);
	TYPE(value, u32);
} unsaved SEC(".maps");

/* Sums of a job's removed groups. Only the reader writes them, for its successor. */
struct ended {
	u64 total[FIGURES];
};
struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 16384);
	UINT(map_flags, NO_PREALLOC);
	TYPE(key, u64);
	TYPE(value, struct ended);
} ended SEC(".maps");

const volatile u32 unified = 0; /* 1: control groups v2; 0: those of v1 */
/* Charges that found the map full; tasks without storage; exits after which a rest was not charged;
 * threads seen in the latest sample. */
struct {
	u64 full, without_storage, tails, threads;
} checks;

#define EXISTS(enumerator) __builtin_preserve_enum_value(*(enum cgroup_subsys_id *)enumerator, 0)
#define INDEX(enumerator) __builtin_preserve_enum_value(*(enum cgroup_subsys_id *)enumerator, 1)
#define ADD(where, amount) __sync_fetch_and_add(&(where), amount)

INLINE struct cgroup *group_in(struct css_set *set, u64 index)
{
	void *states = (void *)__builtin_preserve_access_index(&set->subsys);

	return (*(struct cgroup_subsys_state **)(states + index * sizeof(void *)))->cgroup;
}

/* On v1 the batch system's own process may have joined its job only in the freezer hierarchy. */
INLINE struct cgroup *group_of(struct task_struct *task, u64 *mark)
{
	struct css_set *set = task->cgroups;

	*mark = 0;
	if (unified)
		return set->dfl_cgrp;
	struct cgroup *group = group_in(set, INDEX(cpuacct_cgrp_id));

	if (EXISTS(freezer_cgrp_id)) {
		struct cgroup *frozen = group_in(set, INDEX(freezer_cgrp_id));

		if (frozen->level > group->level) {
			*mark = OF_FREEZER;
			return frozen;
		}
	}
	return group;
}

INLINE void describe(struct record *record, struct cgroup *group, u64 mark)
{
	struct cgroup_subsys_state *state = &group->self;

	if (!(group->self.flags & CSS_ONLINE))
		record->removed = 1;
	for (int i = 0; i < DEPTH && state; i++) {
		struct cgroup *above = state->cgroup;
		u32 level = above->level - 1;

		if (level < LEVELS)
			record->ancestors[level] = above->kn->id | mark;
		state = state->parent;
	}
	record->ready = 1;
}

static __attribute__((noinline)) struct record *record_of(struct cgroup *group, u64 id, u64 mark, struct __sk_buff *packet)
{
	struct record *record = lookup(&groups, &id);

	if (!record) {
		u32 first = 0;
		struct record *blank = lookup(&blanks, &first);

		if (blank)
			update(&groups, &id, blank, NOEXIST);
		record = lookup(&groups, &id);
	}
	if (!record) {
		ADD(checks.full, 1);
		id = 0;
		return lookup(&groups, &id);
	}
	if (!record->ready && group)
		describe(record, group, mark);
	if (!record->ready && packet) {
		for (int i = 0; i < LEVELS; i++)
			record->ancestors[i] = above(packet, i + 1);
		record->ready = 1;
	}
	return record;
}

#define EACH_FIGURE(TAKE) \
	TAKE(CPU, task->se.sum_exec_runtime) \
	TAKE(RCHAR, task->ioac.rchar) TAKE(WCHAR, task->ioac.wchar) \
	TAKE(SYSCR, task->ioac.syscr) TAKE(SYSCW, task->ioac.syscw) \
	TAKE(READ, task->ioac.read_bytes) TAKE(WRITTEN, task->ioac.write_bytes) \
	TAKE(CANCELLED, task->ioac.cancelled_write_bytes) \
	TAKE(DELAY, task->sched_info.run_delay) TAKE(MAJOR, task->maj_flt) \
	TAKE(VOLUNTARY, task->nvcsw) TAKE(INVOLUNTARY, task->nivcsw)
#define GROWTH(figure, counter) { u64 now = (counter); due[figure] = now - last->value[figure]; last->value[figure] = now; }
#define WHOLE(figure, counter) due[figure] = (counter);

INLINE u32 state_of(struct task_struct *task)
{
	struct task_struct___before_5_14 *old = (void *)task;

	return __builtin_preserve_field_info(task->__state, 2) ? task->__state : (u32)old->state;
}

/* Record the user of a task that has run or arrived since the last charge; others cannot have changed user. */
INLINE void note_user(struct record *record, struct task_struct *task)
{
	if (record && !record->user)
		record->user = task->cred->euid.val;
}

enum occasion { LOOKED_AT, EXITS, FREED, MOVED };

INLINE struct record *charge(struct task_struct *task, enum occasion when)
{
	u64 due[OF_TASKS], mark, address = (u64)task;
	struct cgroup *group = group_of(task, &mark);
	struct cgroup *arrived = group;
	u64 id = group->kn->id | mark, at = id;
	struct last *last = storage_of(&lasts, task, 0, when == FREED || when == MOVED ? 0 : CREATE);

	/* A sleeping task without new CPU time has done nothing; touch as little of it as possible. */
	if (last && when == LOOKED_AT && state_of(task) && last->group == id &&
	    last->value[CPU] == task->se.sum_exec_runtime)
		return record_of(group, id, mark, 0);
	if (last) {
		if (checks.without_storage && (task->flags & PF_EXITING)) /* left by an earlier task at this address */
			delete(&unsaved, &address);
		lock(&last->lock);
		EACH_FIGURE(GROWTH)
		due[TASKS] = !last->charged;
		last->charged = 1;
		u64 before = last->group;
		last->group = id;
		if (when == MOVED && before && before != id) { /* its usage until now belongs there */
			id = before;
			group = 0;
		}
		unlock(&last->lock);
	} else if (when == MOVED) {
		return 0;
	} else if (when != FREED) { /* storage is busy, or out of memory: a later charge takes everything */
		u32 one = 1;

		ADD(checks.without_storage, 1);
		if (task->flags & PF_EXITING)
			update(&unsaved, &address, &one, ANY);
		return 0;
	} else if (delete(&unsaved, &address)) { /* it was charged at its exit, but storage is busy now */
		ADD(checks.tails, 1);
		return 0;
	} else {
		EACH_FIGURE(WHOLE)
		due[TASKS] = 1;
	}
	if (when == MOVED && !group)
		note_user(record_of(arrived, at, mark, 0), task); /* describe the new group: a move away from it cannot */
	struct record *record = record_of(group, id, mark, 0);

	if (!record)
		return 0;
#pragma unroll
	for (int i = 0; i < OF_TASKS; i++)
		if (due[i])
			ADD(record->total[i], due[i]);
	if (when == LOOKED_AT)
		note_user(record, task);
	return record;
}

SEC("iter/task")
int look(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct bpf_iter_meta *meta = context->meta;

	if (!task)
		return 0;
	if (!meta->seq_num)
		checks.threads = 0;
	u32 state = state_of(task);

	/* During fork a child is still in the root group; an exiting task has already been charged. */
	if (state & TASK_NEW || task->exit_state & EXIT_DEAD)
		return 0;
	checks.threads++;
	struct record *record = charge(task, LOOKED_AT);

	if (!record)
		return 0;
	u64 now = meta->session_id;

	if (record->look != now) {
		record->processes = record->threads = record->running = record->blocked = 0;
		record->look = now;
	}
	record->threads++;
	record->processes += task->pid == task->tgid;
	if (!task->exit_state) {
		record->running += !state;
		record->blocked += state & UNINTERRUPTIBLE && !(state & NOLOAD);
	}
	return 0;
}

SEC("tp_btf/sched_process_exit")
int ends(u64 *arguments)
{
	charge((struct task_struct *)arguments[0], EXITS);
	return 0;
}

SEC("tp_btf/sched_process_free")
int freed(u64 *arguments)
{
	charge((struct task_struct *)arguments[0], FREED);
	return 0;
}

SEC("tp_btf/cgroup_attach_task") /* called after the move */
int moved(u64 *arguments)
{
	charge((struct task_struct *)arguments[2], MOVED);
	return 0;
}

SEC("tp_btf/cgroup_rmdir")
int removed(u64 *arguments)
{
	struct cgroup *group = (struct cgroup *)arguments[0];
	u64 id = group->kn->id;
	u32 mask = group->root->subsys_mask;

	if (unified) {
		if (group->root->hierarchy_id)
			return 0;
	} else if (!(mask >> INDEX(cpuacct_cgrp_id) & 1)) {
		if (!EXISTS(freezer_cgrp_id) || !(mask >> INDEX(freezer_cgrp_id) & 1))
			return 0;
		id |= OF_FREEZER;
	}
	struct record *record = lookup(&groups, &id);

	if (record)
		record->removed = 1;
	return 0;
}

/* Return the length of the headers that every segment of a GSO or GRO packet has on the wire. */
INLINE u32 headers_of(struct __sk_buff *packet)
{
	u8 head[10], offset = 0;

	if (load(packet, 0, head, sizeof(head)))
		return 0;
	bool is_v4 = head[0] >> 4 == 4;
	u32 length = is_v4 ? (head[0] & 15) * 4 : 40;
	u8 protocol = head[is_v4 ? 9 : 6];

	if (protocol == UDP)
		return length + 8;
	if (protocol == TCP && !load(packet, length + 12, &offset, 1))
		length += (offset >> 4) * 4;
	return length;
}

/* Count IP packets as they are on the wire, for the group in which their socket was created. Only loaded, and
 * attached to the root of v2, if requested. */
INLINE int count(struct __sk_buff *packet, u32 bytes, u32 packets)
{
	u64 id = group_of_packet(packet);
	struct record *record = id ? record_of(0, id, 0, packet) : 0;

	if (record) {
		u32 others = packet->gso_segs > 1 ? packet->gso_segs - 1 : 0;
		u64 length = packet->len;

		if (others)
			length += (u64)others * headers_of(packet);
		ADD(record->total[bytes], length);
		ADD(record->total[packets], 1 + others);
	}
	return 1; /* let the packet pass */
}

SEC("cgroup_skb/ingress")
int received(struct __sk_buff *packet)
{
	return count(packet, RECEIVED_BYTES, RECEIVED_PACKETS);
}

SEC("cgroup_skb/egress")
int sent(struct __sk_buff *packet)
{
	return count(packet, SENT_BYTES, SENT_PACKETS);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
