/* When the fake GPU works: lines "start end" (boot time, ns) in the file $FAKE_NVML_LOAD.
 *
 * Programs write a span before it begins or as it does, so what a sensor shows is exact however late anyone is.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(void) { struct timespec t; clock_gettime(CLOCK_BOOTTIME, &t); return t.tv_sec * 1000000000LL + t.tv_nsec; }
static long number(const char *name, long otherwise) { const char *t = getenv(name); return t && *t ? atol(t) : otherwise; }

/* Return how much of a time the GPU works, by the latest spans (some hundred). [ns] */
static int64_t worked_ns(int64_t from, int64_t to) {
    static char text[16384];
    const char *path = getenv("FAKE_NVML_LOAD");
    int f = path ? open(path, O_RDONLY) : -1;
    if (f < 0) return 0;
    off_t size = lseek(f, 0, SEEK_END), at = size > (off_t)sizeof text - 1 ? size - (off_t)sizeof text + 1 : 0;
    ssize_t length = pread(f, text, sizeof text - 1, at);
    close(f);
    text[length > 0 ? length : 0] = 0;
    char *line = at ? strchr(text, '\n') : text, *end;
    int64_t worked = 0;
    for (; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : 0) {
        int64_t start = strtoll(line, &end, 10), stop = strtoll(end, &end, 10);
        if (*end != '\n') continue;
        start = start > from ? start : from;
        stop = stop < to ? stop : to;
        if (stop > start) worked += stop - start;
    }
    return worked < to - from ? worked : to - from;
}
static int busy(void) { int64_t now = now_ns(); return worked_ns(now, now + 1) > 0; }

/* Whether the file named by a variable is there. */
static int exists(const char *name) { const char *path = getenv(name); return path && !access(path, F_OK); }
