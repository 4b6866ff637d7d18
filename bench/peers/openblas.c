/*
 * Times OpenBLAS's sgemm on one thread, the yardstick of this project's Gemm.
 *
 *   cc -O2 -o openblas openblas.c -lopenblas
 *   ./openblas 256 512 768 1024 2048x256x1024:nt
 *
 * A size is N (square) or MxNxK, row-major C (M,N) = op(A) (M,K) * op(B) (K,N),
 * then optionally :XY with n or t for op(A) and op(B), and :XY+ for C += ...
 * For each size one JSON line with the median over the rounds; the sizes take
 * turns within a round, so that a change of clock hits them all alike.
 *
 * It refuses to run against anything but OpenBLAS: it does not link without
 * openblas_get_config, checks what that returns, and the thread count. And it
 * is fair to an OpenBLAS that is older than the processor, see know_processor.
 */
#define _GNU_SOURCE /* strcasestr */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 15, MAXSIZES = 64 };

struct size {
	const char *name;
	int m, n, k, ta, tb, accumulate;
	float *a, *b, *c;
	double gflops[ROUNDS];
};

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + 1e-9 * t.tv_nsec;
}

static int usage(const char *bad) {
	fprintf(stderr, "openblas: %s: want N or MxNxK, then optionally :nn, :nt, :tn or :tt, then optionally +\n", bad);
	return 2;
}

static int parse(struct size *s, const char *arg) {
	char ops[4] = "nn", rest[8] = "";
	s->name = arg;
	if (sscanf(arg, "%dx%dx%d%7s", &s->m, &s->n, &s->k, rest) < 3) {
		if (sscanf(arg, "%d%7s", &s->m, rest) < 1) return 0;
		s->n = s->k = s->m;
	}
	if (rest[0] && sscanf(rest, ":%3[nt+]", ops) != 1) return 0;
	if (strspn(ops, "nt") != 2 || (ops[2] && ops[2] != '+')) return 0;
	s->ta = ops[0] == 't', s->tb = ops[1] == 't', s->accumulate = ops[2] == '+';
	return s->m > 0 && s->n > 0 && s->k > 0;
}

static float *matrix(size_t n) {
	float *x = malloc(n * sizeof *x);
	if (!x) {
		perror("openblas");
		exit(1);
	}
	for (size_t i = 0; i < n; i++) x[i] = (float)(i * 2654435761u % 1000) / 1000 - 0.5f;
	return x;
}

static void gemm(struct size *s) {
	cblas_sgemm(CblasRowMajor, s->ta ? CblasTrans : CblasNoTrans, s->tb ? CblasTrans : CblasNoTrans, s->m, s->n, s->k, 1,
	            s->a, s->ta ? s->m : s->k, s->b, s->tb ? s->k : s->n, s->accumulate, s->c, s->n);
}

static int ascending(const void *x, const void *y) {
	double a = *(const double *)x, b = *(const double *)y;
	return (a > b) - (a < b);
}

/*
 * An OpenBLAS that does not know the processor takes its oldest kernels, which
 * reach a fifth of what the best do (0.3.21 on Emerald Rapids), or some
 * with shorter vectors. What it takes is settled when it is loaded, so name the
 * best and start again.
 */
static void know_processor(char **argv) {
#ifdef __x86_64__
	int wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
	const char *good = wide ? "SkylakeX Cooperlake SapphireRapids" : "Haswell Zen Excavator";
	if (getenv("OPENBLAS_CORETYPE") || !__builtin_cpu_supports("avx2") || strcasestr(good, openblas_get_corename()))
		return;
	setenv("OPENBLAS_CORETYPE", wide ? "SkylakeX" : "Haswell", 1);
	execv("/proc/self/exe", argv);
	perror("openblas");
	exit(1);
#else
	(void)argv;
#endif
}

int main(int argc, char **argv) {
	static struct size sizes[MAXSIZES];
	int count = argc - 1;
	if (count < 1 || count > MAXSIZES) return usage("sizes");
	for (int i = 0; i < count; i++)
		if (!parse(&sizes[i], argv[i + 1])) return usage(argv[i + 1]);

	know_processor(argv);
	openblas_set_num_threads(1);
	const char *config = openblas_get_config();
	if (strncmp(config, "OpenBLAS ", 9) != 0 || openblas_get_num_threads() != 1) {
		fprintf(stderr, "openblas: linked against \"%s\" with %d threads, want OpenBLAS with 1\n", config,
		        openblas_get_num_threads());
		return 1;
	}
	for (int i = 0; i < count; i++) {
		struct size *s = &sizes[i];
		s->a = matrix((size_t)s->m * s->k), s->b = matrix((size_t)s->k * s->n), s->c = matrix((size_t)s->m * s->n);
	}
	/* The first round only warms up. */
	for (int round = -1; round < ROUNDS; round++)
		for (int i = 0; i < count; i++) {
			struct size *s = &sizes[i];
			double flop = 2.0 * s->m * s->n * s->k, start = now(), seconds;
			long calls = 0;
			do {
				gemm(s);
				calls++;
			} while ((seconds = now() - start) < 0.02);
			if (round >= 0) s->gflops[round] = 1e-9 * flop * calls / seconds;
		}
	for (int i = 0; i < count; i++) {
		struct size *s = &sizes[i];
		qsort(s->gflops, ROUNDS, sizeof s->gflops[0], ascending);
		const char *named = getenv("OPENBLAS_CORETYPE");
		printf("{\"size\":\"%s\",\"m\":%d,\"n\":%d,\"k\":%d,\"gflops\":%.2f,\"threads\":%d,\"core\":\"%s\",\"config\":\"%s%s%s\"}\n",
		       s->name, s->m, s->n, s->k, s->gflops[ROUNDS / 2], openblas_get_num_threads(), openblas_get_corename(),
		       config, named ? " OPENBLAS_CORETYPE=" : "", named ? named : "");
	}
	return 0;
}
