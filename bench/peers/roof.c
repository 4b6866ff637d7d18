/*
 * Measures what one core can do at most: multiply-adds with everything in registers, and reads from the
 * second-level cache and from memory.
 *
 *   cc -O3 -march=native -o roof roof.c
 *
 * Prints a line of JSON: GFLOP/s and GB/s, the best of several turns.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef __AVX512F__
enum { LANES = 16 };
#else
enum { LANES = 8 };
#endif
/* 12 chains hide the latency, and fit into the registers of either kind. */
enum { CHAINS = 12, TURNS = 25 };
typedef float vector __attribute__((vector_size(4 * LANES)));

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + 1e-9 * t.tv_nsec;
}

static volatile float sink;

static void keep(vector x) {
	float sum = 0;
	for (int i = 0; i < LANES; i++) sum += x[i];
	sink = sum;
}

static double peak(void) {
	const long steps = 400000;
	vector a[CHAINS], x, y;
	for (int i = 0; i < LANES; i++) x[i] = 0.999f, y[i] = 1e-3f;
	for (int c = 0; c < CHAINS; c++) a[c] = y;
	double start = now();
	for (long s = 0; s < steps; s++) {
		for (int c = 0; c < CHAINS; c++) a[c] = a[c] * x + y;
		__asm__ volatile("" ::: ); /* the loop stays as it is */
	}
	double took = now() - start;
	for (int c = 1; c < CHAINS; c++) a[0] += a[c];
	keep(a[0]);
	return 2e-9 * LANES * CHAINS * steps / took;
}

static double reads(const vector *x, long vectors, long passes) {
	vector sum[4] = {0};
	double start = now();
	for (long p = 0; p < passes; p++) {
		for (long i = 0; i < vectors; i += 4)
			for (int c = 0; c < 4; c++) sum[c] += x[i + c];
		__asm__ volatile("" ::: "memory");
	}
	double took = now() - start;
	keep(sum[0] + sum[1] + sum[2] + sum[3]);
	return 1e-9 * sizeof *x * vectors * passes / took;
}

static double best(double x, double y) { return x > y ? x : y; }

int main(void) {
	const long cached = 256 << 10, large = 256 << 20;
	vector *x = aligned_alloc(64, large);
	if (!x) {
		perror("roof");
		return 1;
	}
	for (long i = 0; i < large / 4; i++) ((float *)x)[i] = 1e-3f;
	double flops = 0, l2 = 0, memory = 0;
	for (int t = 0; t < TURNS; t++) {
		flops = best(flops, peak());
		l2 = best(l2, reads(x, cached / sizeof *x, 100));
		memory = best(memory, reads(x, large / sizeof *x, 1));
	}
	printf("{\"gflops\":%.2f,\"l2_gb\":%.2f,\"memory_gb\":%.2f,\"lanes\":%d}\n", flops, l2, memory, LANES);
	return 0;
}
