// Command bench measures the rows of bench/rows.List: this program's speed beside that of its peers,
// measured in the same run, one thing at a time, in turns, as medians. Each row says what it should
// reach; nothing is asserted. What it measures it adds to bench.jsonl among the records of a directory
// of results, with its provenance.
//
// It reports peers that are not installed as missing: OpenBLAS
// (bench/peers/openblas.c, needs a C compiler and libopenblas-dev), oneDNN
// (bench/peers/onednn.cpp, a C++ compiler and libdnnl-dev) and PyTorch
// (bench/peers/pytorch.py, needs python3-torch). What it compiles it removes.
//
// The last measurement is shown in results/reference/README.md, with a plot of the last row. `make bench
// OUT=results/reference reference`, on a machine that does nothing else, measures anew and
// writes that table; `go run -buildvcs=true ./bench -only step,remat -out results/reference` replaces only
// some rows, and -threads 1 leaves out steps on two threads.
package main
