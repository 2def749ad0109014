/* fake_nvml.c - a stand-in for NVIDIA's libnvidia-ml.so.1, for tests on machines without a GPU.
 *
 *   cc -shared -fPIC -O2 -Wall -Wl,-soname,libnvidia-ml.so.1 -o libnvidia-ml.so.1 fake_nvml.c
 *
 * A program that has loaded it by its path finds it again by its name, as pynvml asks for it.
 *
 * The state is re-read from the text file $FAKE_NVML at every call, so a test can change a running exporter's GPUs.
 * One "key=value ..." line a thing ('#' starts a comment; %20 in a value is a space):
 *   driver version=550.54.15 cuda=12040
 *   gpu uuid=GPU-1 name=NVIDIA%20A100 minor=0 bus=0000:3B:00.0 util=40 memutil=10 total=42505273344 used=1048576
 *       reserved=0 temp=45 power=95000 limit=400000 energy=123456 sm=1410 mem=1215 fan=30 pstate=0 ecc=0 mig=-1
 *       maxsm=1980 maxmem=2619 minlimit=100000 maxlimit=400000 vbios=92.00 arch=7 computemode=0 samples=TIME:VALUE,...   (one line)
 *   proc gpu=0 pid=123 used=1048576 sm=40 mem=5 enc=0 dec=0 type=C [gi=-1 ci=-1]     type C compute, G graphics
 *   mig gpu=0 uuid=MIG-1 gi=1 ci=0 total=5000 used=100                                a MIG instance (set mig=1 on the gpu)
 *   fail func=nvmlDeviceGetTemperature code=3 [gpu=0]                                 error injection (3 = not supported, 15 = GPU lost)
 *   slow func=nvmlDeviceGetCount_v2 ms=500                                            delay injection
 *   xid gpu=0 code=79 [gi=1]        an XID event; sets that were registered before the line came are told of it, once each
 * Of a gpu line too, and gpm= of a mig line, whose gi takes it:
 *   gpm=2:50,20:1.5,60:e999         profile: metric:value, or metric:eCODE where that metric fails; others are not supported
 *   ecc=VC,VU,AC,AU                 errors, volatile and aggregate, corrected and uncorrected; of fewer numbers the last stands for the rest
 *   rows=CORRECTED,UNCORRECTED,PENDING,FAILURE    throttle=MASK reasons=MASK (that are supported)
 * Every value left out of a gpu line answers NVML_ERROR_NOT_SUPPORTED (3) for the call that wants it.
 * A missing or unreadable file behaves as "driver not loaded" (9).  Functions not defined here do not exist,
 * as with an old driver: pynvml raises NVMLError_FunctionNotFound.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <pthread.h>

enum { OK, UNINIT, INVALID, NOTSUP, NOPERM, ALREADY, NOTFOUND, SMALL, POWER, NODRIVER, TIMEOUT, IRQ, NOLIB, NOFUNC, CORRUPT, LOST };
#define MAXL 1024
#define U(x) ((unsigned)(x))
typedef unsigned long long u64;
static char line[MAXL][1024]; static int nlines; static int inited;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

static int load(void) {                                   /* call with mu held */
  const char *p = getenv("FAKE_NVML"); FILE *f; char *c;
  if (nlines && getenv("FAKE_NVML_ONCE")) return OK;      /* for benchmarks, which are not about this file */
  f = p ? fopen(p, "r") : NULL; nlines = 0; if (!f) return NODRIVER;
  while (nlines < MAXL && fgets(line[nlines], sizeof line[0], f)) { if ((c = strchr(line[nlines], '#'))) *c = 0; line[nlines][strcspn(line[nlines], "\r\n")] = 0; nlines++; }
  fclose(f); return OK;
}
static int kind(const char *l, const char *k) { size_t n = strlen(k); l += strspn(l, " \t"); return !strncmp(l, k, n) && (l[n] == ' ' || l[n] == '\t' || !l[n]); }
static int get(const char *l, const char *key, char *out, size_t n) {   /* key=value on a line; %20 -> space */
  size_t k = strlen(key); const char *s = l;
  while ((s = strstr(s, key))) {
    if (s > l && (s[-1] == ' ' || s[-1] == '\t') && s[k] == '=') {
      size_t i = 0; for (s += k + 1; *s && *s != ' ' && *s != '\t' && i + 1 < n; s++) { if (!strncmp(s, "%20", 3)) { out[i++] = ' '; s += 2; } else out[i++] = *s; }
      out[i] = 0; return 1; }
    s += k; }
  return 0;
}
static int num(const char *l, const char *key, long long *v) { char b[64]; if (!get(l, key, b, sizeof b)) return 0; *v = strtoll(b, NULL, 0); return 1; }
static const char *nth(const char *k, int n) { for (int i = 0; i < nlines; i++) if (kind(line[i], k) && n-- == 0) return line[i]; return NULL; }
static int count(const char *k) { int n = 0; while (nth(k, n)) n++; return n; }
/* handles: 1 + gpu index; MIG devices 0x1000 + line number of "mig" kind */
static int gpu_of(void *h) { long v = (long)h; if (v >= 0x1000) { long long g = 0; const char *l = nth("mig", v - 0x1000); if (l) num(l, "gpu", &g); return g; } return v - 1; }
static const char *dev(void *h) { long v = (long)h; return v >= 0x1000 ? nth("mig", v - 0x1000) : v >= 1 ? nth("gpu", v - 1) : NULL; }
static int inject(const char *fn, void *h) {              /* fail / slow lines */
  char b[96]; long long v, g;
  for (int i = 0; i < nlines; i++) {
    if (!get(line[i], "func", b, sizeof b) || strcmp(b, fn)) continue;
    if (kind(line[i], "slow") && num(line[i], "ms", &v)) usleep(v * 1000);
    if (kind(line[i], "fail") && num(line[i], "code", &v) && (!num(line[i], "gpu", &g) || (h && g == gpu_of(h)))) return v; }
  return OK;
}
#define ENTER(h) int rc; pthread_mutex_lock(&mu); rc = inited ? load() : UNINIT; if (!rc) rc = inject(__func__, h); if (rc) goto out
#define LEAVE out: pthread_mutex_unlock(&mu); return rc
#define DEV(h) const char *d = NULL; ENTER(h); if (!(d = dev(h))) { rc = INVALID; goto out; }
static int str(const char *l, const char *k, char *out, unsigned n) { char b[256]; if (!l || !get(l, k, b, sizeof b)) return NOTSUP; if (strlen(b) >= n) return SMALL; strcpy(out, b); return OK; }
#define GETU(fn, key, type, scale) int fn(void *h, type *out) { long long v; DEV(h); if (num(d, key, &v)) *out = (type)(v * scale); else rc = NOTSUP; LEAVE; }

int nvmlInitWithFlags(unsigned f) { (void)f; pthread_mutex_lock(&mu); int rc = load(); if (!rc) rc = inject(__func__, NULL); if (!rc) inited++; pthread_mutex_unlock(&mu); return rc; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlInit(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { pthread_mutex_lock(&mu); int rc = inited ? (inited--, OK) : UNINIT; pthread_mutex_unlock(&mu); return rc; }
const char *nvmlErrorString(int e) {
  static const char *s[] = { "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions", "Already Initialized", "Not Found", "Insufficient Size",
    "Insufficient External Power", "Driver Not Loaded", "Timeout", "Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM", "GPU is lost" };
  return e >= 0 && e < 16 ? s[e] : "Unknown Error"; }
int nvmlSystemGetDriverVersion(char *v, unsigned n) { ENTER(NULL); rc = str(nth("driver", 0), "version", v, n); LEAVE; }
int nvmlSystemGetNVMLVersion(char *v, unsigned n) { ENTER(NULL); char b[80] = "550.54.15"; str(nth("driver", 0), "version", b, sizeof b); if (snprintf(v, n, "12.%s", b) >= (int)n) rc = SMALL; LEAVE; }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { long long x; const char *l; ENTER(NULL); if ((l = nth("driver", 0)) && num(l, "cuda", &x)) *v = x; else rc = NOTSUP; LEAVE; }
int nvmlSystemGetCudaDriverVersion(int *v) { return nvmlSystemGetCudaDriverVersion_v2(v); }
int nvmlDeviceGetCount_v2(unsigned *n) { ENTER(NULL); *n = count("gpu"); LEAVE; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { ENTER((void *)(long)(i + 1)); if (nth("gpu", i)) *h = (void *)(long)(i + 1); else rc = INVALID; LEAVE; }
int nvmlDeviceGetHandleByUUID(const char *u, void **h) { char b[128]; int i; ENTER(NULL); rc = NOTFOUND;
  for (i = 0; nth("gpu", i); i++) if (get(nth("gpu", i), "uuid", b, sizeof b) && !strcmp(b, u)) { *h = (void *)(long)(i + 1); rc = OK; }
  for (i = 0; nth("mig", i); i++) if (get(nth("mig", i), "uuid", b, sizeof b) && !strcmp(b, u)) { *h = (void *)(long)(0x1000 + i); rc = OK; }
  LEAVE; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *u, void **h) { char b[128]; ENTER(NULL); rc = NOTFOUND;
  for (int i = 0; nth("gpu", i); i++) if (get(nth("gpu", i), "bus", b, sizeof b) && strlen(u) >= strlen(b) && !strcasecmp(b, u + strlen(u) - strlen(b))) { *h = (void *)(long)(i + 1); rc = OK; }
  LEAVE; }
int nvmlDeviceGetUUID(void *h, char *o, unsigned n) { DEV(h); rc = str(d, "uuid", o, n); LEAVE; }
int nvmlDeviceGetName(void *h, char *o, unsigned n) { DEV(h); rc = str(nth("gpu", gpu_of(h)), "name", o, n); LEAVE; }
int nvmlDeviceGetSerial(void *h, char *o, unsigned n) { DEV(h); rc = str(d, "serial", o, n); LEAVE; }
int nvmlDeviceGetVbiosVersion(void *h, char *o, unsigned n) { DEV(h); rc = str(d, "vbios", o, n); LEAVE; }
int nvmlDeviceGetIndex(void *h, unsigned *o) { DEV(h); *o = gpu_of(h); LEAVE; }
int nvmlDeviceGetMinorNumber(void *h, unsigned *o) { long long v; DEV(h); *o = num(d, "minor", &v) ? U(v) : U(gpu_of(h)); LEAVE; }
int nvmlDeviceGetPciInfo_v3(void *h, void *out) {
  struct { char legacy[16]; unsigned domain, bus, device, id, sub; char busid[32]; } *p = out; char b[32]; DEV(h); memset(p, 0, sizeof *p);
  if ((rc = str(nth("gpu", gpu_of(h)), "bus", b, sizeof b))) goto out;
  sscanf(b, "%x:%x:%x", &p->domain, &p->bus, &p->device); snprintf(p->legacy, 16, "%04X:%02X:%02X.0", p->domain & 0xffff, p->bus & 0xff, p->device & 0xff); snprintf(p->busid, 32, "%08X:%02X:%02X.0", p->domain, p->bus & 0xff, p->device & 0xff); LEAVE; }
int nvmlDeviceGetMemoryInfo(void *h, void *out) { struct { u64 total, free, used; } *m = out; long long t, u, r = 0; DEV(h);
  if (num(d, "total", &t) && num(d, "used", &u)) { num(d, "reserved", &r); m->total = t; m->used = u + r; m->free = t - u - r; } else rc = NOTSUP; LEAVE; }
int nvmlDeviceGetMemoryInfo_v2(void *h, void *out) { struct { unsigned version; u64 total, reserved, free, used; } *m = out; long long t, u, r = 0; DEV(h);
  if (num(d, "total", &t) && num(d, "used", &u)) { num(d, "reserved", &r); m->total = t; m->reserved = r; m->used = u; m->free = t - u - r; } else rc = NOTSUP; LEAVE; }
int nvmlDeviceGetUtilizationRates(void *h, void *out) { struct { unsigned gpu, mem; } *o = out; long long g, m; DEV(h); if (num(d, "util", &g) && num(d, "memutil", &m)) { o->gpu = g; o->mem = m; } else rc = NOTSUP; LEAVE; }
int nvmlDeviceGetEncoderUtilization(void *h, unsigned *u, unsigned *p) { long long v; DEV(h); if (num(d, "enc", &v)) { *u = v; *p = 167000; } else rc = NOTSUP; LEAVE; }
int nvmlDeviceGetDecoderUtilization(void *h, unsigned *u, unsigned *p) { long long v; DEV(h); if (num(d, "dec", &v)) { *u = v; *p = 167000; } else rc = NOTSUP; LEAVE; }
int nvmlDeviceGetTemperature(void *h, int sensor, unsigned *o) { long long v; (void)sensor; DEV(h); if (num(d, "temp", &v)) *o = v; else rc = NOTSUP; LEAVE; }
GETU(nvmlDeviceGetPowerUsage, "power", unsigned, 1)                       /* mW */
GETU(nvmlDeviceGetEnforcedPowerLimit, "limit", unsigned, 1)
GETU(nvmlDeviceGetPowerManagementLimit, "limit", unsigned, 1)
int nvmlDeviceGetPowerManagementLimitConstraints(void *h, unsigned *lo, unsigned *hi) { long long a, b; DEV(h); if (num(d, "minlimit", &a) && num(d, "maxlimit", &b)) { *lo = a; *hi = b; } else rc = NOTSUP; LEAVE; }
GETU(nvmlDeviceGetTotalEnergyConsumption, "energy", u64, 1)               /* mJ since driver load */
GETU(nvmlDeviceGetFanSpeed, "fan", unsigned, 1)
GETU(nvmlDeviceGetPerformanceState, "pstate", unsigned, 1)
GETU(nvmlDeviceGetComputeMode, "computemode", unsigned, 1)
GETU(nvmlDeviceGetPersistenceMode, "persistence", unsigned, 1)
GETU(nvmlDeviceGetArchitecture, "arch", unsigned, 1)
GETU(nvmlDeviceGetCurrentClocksThrottleReasons, "throttle", u64, 1)
GETU(nvmlDeviceGetCurrentClocksEventReasons, "throttle", u64, 1)
GETU(nvmlDeviceGetSupportedClocksThrottleReasons, "reasons", u64, 1)
GETU(nvmlDeviceGetSupportedClocksEventReasons, "reasons", u64, 1)
static int clock_(void *h, int t, unsigned *o, const char *fn) { static const char *k[] = { "gfx", "sm", "mem", "video", "maxgfx", "maxsm", "maxmem", "maxvideo" }; long long v; const char *d; int rc; pthread_mutex_lock(&mu);
  rc = inited ? load() : UNINIT; if (!rc) rc = inject(fn, h); if (!rc) { if (!(d = dev(h)) || t < 0 || t > 7) rc = INVALID; else if (num(d, k[t], &v) || (t == 0 && num(d, "sm", &v))) *o = v; else rc = NOTSUP; } pthread_mutex_unlock(&mu); return rc; }
int nvmlDeviceGetClockInfo(void *h, int t, unsigned *o) { return clock_(h, t, o, __func__); }
int nvmlDeviceGetMaxClockInfo(void *h, int t, unsigned *o) { return clock_(h, t + 4, o, __func__); }
/* Numbers with commas between; returns how many of `most` there were, the last one standing for the rest. */
static int list(const char *l, const char *key, u64 *o, int most) { char b[256], *c = b; int n = 0; if (!l || !get(l, key, b, sizeof b)) return 0;
  while (n < most && *c) { o[n++] = strtoull(c, &c, 0); if (*c == ',') c++; } for (int i = n; n && i < most; i++) o[i] = o[n - 1]; return n; }
int nvmlDeviceGetTotalEccErrors(void *h, int type, int counter, u64 *o) { u64 v[4]; DEV(h); if (type < 0 || type > 1 || counter < 0 || counter > 1) rc = INVALID; else if (list(d, "ecc", v, 4)) *o = v[2 * counter + type]; else rc = NOTSUP; LEAVE; }
int nvmlDeviceGetRemappedRows(void *h, unsigned *c, unsigned *u, unsigned *pending, unsigned *failure) { u64 v[4]; DEV(h); if (list(d, "rows", v, 4)) { *c = v[0]; *u = v[1]; *pending = v[2]; *failure = v[3]; } else rc = NOTSUP; LEAVE; }
int nvmlDeviceGetEccMode(void *h, unsigned *c, unsigned *p) { long long v; DEV(h); if (num(d, "ecc", &v)) *c = *p = 1; else rc = NOTSUP; LEAVE; }
int nvmlDeviceGetMigMode(void *h, unsigned *c, unsigned *p) { long long v; DEV(h); if (num(d, "mig", &v) && v >= 0) *c = *p = v; else rc = NOTSUP; LEAVE; }
int nvmlDeviceGetMaxMigDeviceCount(void *h, unsigned *o) { long long v; DEV(h); *o = num(d, "mig", &v) && v == 1 ? 7 : 0; LEAVE; }
int nvmlDeviceIsMigDeviceHandle(void *h, unsigned *o) { DEV(h); *o = (long)h >= 0x1000; LEAVE; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *h, unsigned i, void **o) { long long g; int n = 0; DEV(h); rc = NOTFOUND;
  for (int k = 0; nth("mig", k); k++) if (num(nth("mig", k), "gpu", &g) && g == gpu_of(h) && n++ == (int)i) { *o = (void *)(long)(0x1000 + k); rc = OK; break; }
  LEAVE; }
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *h, void **o) { DEV(h); *o = (void *)(long)(gpu_of(h) + 1); LEAVE; }
int nvmlDeviceGetGpuInstanceId(void *h, unsigned *o) { long long v; DEV(h); if (num(d, "gi", &v)) *o = v; else rc = NOTSUP; LEAVE; }
int nvmlDeviceGetComputeInstanceId(void *h, unsigned *o) { long long v; DEV(h); if (num(d, "ci", &v)) *o = v; else rc = NOTSUP; LEAVE; }
struct proc { unsigned pid; u64 used; unsigned gi, ci; };
static int procs(void *h, unsigned *n, struct proc *o, char type, const char *fn) {
  unsigned want = 0, cap = *n; int rc, i; char t[8]; long long g, v; const char *l;
  pthread_mutex_lock(&mu); rc = inited ? load() : UNINIT; if (!rc) rc = inject(fn, h); if (!rc && !dev(h)) rc = INVALID;
  if (!rc) { for (i = 0; (l = nth("proc", i)); i++) {
      if (!num(l, "gpu", &g) || g != gpu_of(h) || (get(l, "type", t, sizeof t) ? t[0] : 'C') != type) continue;
      if (want < cap && o) { struct proc *p = &o[want]; memset(p, 0, sizeof *p); p->pid = num(l, "pid", &v) ? U(v) : 0; p->used = num(l, "used", &v) ? (u64)v : ~0ULL; /* ~0: not available */
        p->gi = num(l, "gi", &v) ? U(v) : ~0U; p->ci = num(l, "ci", &v) ? U(v) : ~0U; }
      want++; }
    *n = want; if (want > cap) rc = SMALL; }
  pthread_mutex_unlock(&mu); return rc;
}
#define PROCS(fn, t) int fn(void *h, unsigned *n, void *o) { return procs(h, n, o, t, __func__); }
PROCS(nvmlDeviceGetComputeRunningProcesses_v3, 'C') PROCS(nvmlDeviceGetComputeRunningProcesses_v2, 'C')
PROCS(nvmlDeviceGetGraphicsRunningProcesses_v3, 'G') PROCS(nvmlDeviceGetGraphicsRunningProcesses_v2, 'G')
PROCS(nvmlDeviceGetMPSComputeRunningProcesses_v3, 'M')
int nvmlDeviceGetProcessUtilization(void *h, void *out, unsigned *n, u64 since) {
  struct { unsigned pid; u64 ts; unsigned sm, mem, enc, dec; } *o = out; unsigned want = 0, cap = *n; long long g, v, at; const char *l; DEV(h);
  for (int i = 0; (l = nth("proc", i)); i++) { if (!num(l, "gpu", &g) || g != gpu_of(h) || !num(l, "sm", &v)) continue;
    if (!num(l, "at", &at)) at = since + 1; else if ((u64)at <= since) continue;
    if (o && want < cap) { memset(&o[want], 0, sizeof o[0]); o[want].pid = num(l, "pid", &g) ? U(g) : 0; o[want].ts = at; o[want].sm = v; if (num(l, "mem", &v)) o[want].mem = v; if (num(l, "enc", &v)) o[want].enc = v; if (num(l, "dec", &v)) o[want].dec = v; }
    want++; }
  *n = want; rc = want == 0 ? NOTFOUND : (!o || want > cap) ? SMALL : OK; LEAVE; }
int nvmlSystemGetProcessName(unsigned pid, char *o, unsigned n) { char p[64]; FILE *f; ENTER(NULL); snprintf(p, sizeof p, "/proc/%u/cmdline", pid); rc = NOTFOUND;
  if ((f = fopen(p, "r"))) { size_t k = fread(o, 1, n - 1, f); o[k] = 0; fclose(f); rc = OK; } LEAVE; }
/* Utilisation as the driver has sampled it; type and times are microseconds, as the state file gives them. */
int nvmlDeviceGetSamples(void *h, int type, u64 since, int *value_type, unsigned *n, void *out) {
  struct { u64 ts; union { double d; unsigned u; u64 l; } v; } *o = out; char b[512], *c; unsigned want = 0; DEV(h);
  if (type != 1 || !get(d, "samples", b, sizeof b)) { rc = NOTSUP; goto out; }
  for (c = strtok(b, ","); c; c = strtok(NULL, ",")) { u64 ts = strtoull(c, &c, 10); if (ts <= since) continue; if (o && want < *n) { memset(&o[want], 0, sizeof o[0]); o[want].ts = ts; o[want].v.u = *c == ':' ? strtoul(c + 1, NULL, 10) : 0; } want++; }
  *value_type = 1; *n = want; rc = want ? OK : NOTFOUND; LEAVE; }
/* GPM. A sample keeps what its device said when it was taken; a metric is the mean of two samples, the first taken before the second. */
struct gpm { long dev; long long gi; u64 taken; char text[256]; };
struct gpm_metric { unsigned id; int ret; double value; char *info[3]; };
struct gpm_get { unsigned version, n; struct gpm *a, *b; struct gpm_metric m[]; };
static u64 gpm_taken;
int nvmlGpmQueryDeviceSupport(void *h, void *out) { struct { unsigned version, yes; } *o = out; char b[256]; DEV(h); if (o->version != 1) rc = INVALID; else o->yes = get(d, "gpm", b, sizeof b); LEAVE; }
int nvmlGpmSampleAlloc(struct gpm **o) { ENTER(NULL); if (!(*o = calloc(1, sizeof **o))) rc = 20; LEAVE; }
int nvmlGpmSampleFree(struct gpm *s) { ENTER(NULL); free(s); LEAVE; }
static int gpm_take(const char *l, long dev, long long gi, struct gpm *s) { if (!get(l, "gpm", s->text, sizeof s->text)) return NOTSUP; s->dev = dev; s->gi = gi; s->taken = ++gpm_taken; return OK; }
int nvmlGpmSampleGet(void *h, struct gpm *s) { DEV(h); rc = gpm_take(d, (long)h, -1, s); LEAVE; }
int nvmlGpmMigSampleGet(void *h, unsigned gi, struct gpm *s) { const char *l; long long g, i; DEV(h); rc = NOTFOUND;
  for (int k = 0; (l = nth("mig", k)); k++) if (num(l, "gpu", &g) && g == gpu_of(h) && num(l, "gi", &i) && i == gi) { rc = gpm_take(l, (long)h, gi, s); break; }
  LEAVE; }
static int gpm_value(const char *text, unsigned id, double *v) { const char *c = text;
  while (*c) { char *e; unsigned k = strtoul(c, &e, 10); if (*e != ':') return NOTSUP; if (k == id) { if (e[1] == 'e') return atoi(e + 2); *v = strtod(e + 1, NULL); return OK; } c = strchr(e, ','); if (!c) break; c++; }
  return NOTSUP; }
int nvmlGpmMetricsGet(struct gpm_get *o) { double x, y; ENTER(NULL);
  if (o->version != 1 || !o->a || !o->b || !o->a->taken || o->a->taken >= o->b->taken || o->a->dev != o->b->dev || o->a->gi != o->b->gi) { rc = INVALID; goto out; }
  for (unsigned i = 0; i < o->n; i++) { struct gpm_metric *m = &o->m[i]; m->ret = gpm_value(o->a->text, m->id, &x); if (!m->ret) m->ret = gpm_value(o->b->text, m->id, &y); if (!m->ret) m->value = (x + y) / 2; }
  LEAVE; }
/* Events. A set is told of the lines that came after its card was registered, each once. */
struct set { u64 types[16]; int seen[16]; };
struct event { void *device; u64 type, data; unsigned gi, ci; };
static const char *xid_of(int gpu, int n) { long long g; const char *l; for (int i = 0; (l = nth("xid", i)); i++) if (num(l, "gpu", &g) && g == gpu && n-- == 0) return l; return NULL; }
int nvmlEventSetCreate(struct set **o) { ENTER(NULL); if (!(*o = calloc(1, sizeof **o))) rc = 20; LEAVE; }
int nvmlEventSetFree(struct set *s) { ENTER(NULL); free(s); LEAVE; }
int nvmlDeviceGetSupportedEventTypes(void *h, u64 *o) { DEV(h); *o = 8; LEAVE; }
int nvmlDeviceRegisterEvents(void *h, u64 types, struct set *s) { int g; DEV(h); g = gpu_of(h); if ((long)h >= 0x1000 || g >= 16) { rc = INVALID; goto out; } if (types & ~8ULL) { rc = NOTSUP; goto out; }
  s->types[g] = types; for (s->seen[g] = 0; xid_of(g, s->seen[g]); s->seen[g]++); LEAVE; }
static int next_event(struct set *s, struct event *e) { long long v; const char *l; ENTER(NULL); rc = TIMEOUT; memset(e, 0, sizeof *e);
  for (int g = 0; g < 16; g++) if (s->types[g] && (l = xid_of(g, s->seen[g]))) { s->seen[g]++; e->device = (void *)(long)(g + 1); e->type = 8; e->data = num(l, "code", &v) ? (u64)v : 0; e->gi = num(l, "gi", &v) ? U(v) : ~0U; e->ci = ~0U; rc = OK; break; }
  LEAVE; }
int nvmlEventSetWait_v2(struct set *s, struct event *e, unsigned ms) { int rc; { pthread_mutex_lock(&mu); rc = inited ? load() : UNINIT; if (!rc) rc = inject(__func__, NULL); pthread_mutex_unlock(&mu); }
  for (unsigned waited = 0; !rc; waited += 10) { rc = next_event(s, e); if (rc != TIMEOUT || waited >= ms) break; rc = OK; usleep(10000); }
  return rc; }
