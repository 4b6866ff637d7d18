// Command bench measures the rows of "How good is good", below: this
// program's speed beside that of its peers, measured in the same run, one thing
// at a time, in turns, as medians. It asserts nothing. What it measures it adds to
// bench.jsonl among the records of a directory of results, with its provenance.
//
// It reports peers that are not installed as missing: OpenBLAS
// (bench/peers/openblas.c, needs a C compiler and libopenblas-dev), oneDNN
// (bench/peers/onednn.cpp, a C++ compiler and libdnnl-dev) and PyTorch
// (bench/peers/pytorch.py, needs python3-torch). What it compiles it removes.
//
// # How good is good
//
// What each row should reach:
//
//	what a core can do at most (bench/peers/roof.c)         what the others are held against
//	SGEMM 256..1024, one core                               0.95 of OpenBLAS or more
//	training step, 1 and 2 threads, of transformer-lm       not slower than PyTorch on the CPU;
//	(L6 d256 ff1024 h8 seq128 vocab8192 batch16),           aim for 0.8 of its time
//	ResNet-101 (64x64 batch 16), ResNet-50 and
//	AmoebaNet-D (6, 64) (224x224 batch 4), SmolLM2-135M's
//	shape (4 x 64 tokens), GNMT (d512, 16 x 32 tokens)
//	the same of GPT-2 124M (4 x 64 and 4 x 512 tokens)      0.75 of PyTorch's time
//	a step's convolutions and products, one core: seven     not slower than oneDNN with its reorders
//	networks, forward and both gradients                    of weights, or within 1.15 of the roofline
//	all of a step by kind of layer, one core                where a target above is missed: within 1.15 of
//	                                                        the roofline
//	K=2 on two cores against K=1 on one, even               0.95 of the closed form or more
//	transformer, M=16
//	emulated K=2 against real K=2, and R=2                  within 5%
//	R=2 on two cores against R=1 on one, with the update    0.95 of twice the throughput or more
//	sums of 138 MB of gradients over two replicas in one    0.8 or more of the bytes per second of a copy
//	process                                                 and an addition over such buffers
//	re-materialisation, K=1, always against never           1.34 or less
//	modelled host against emulated runs, K = 2, 4, 8        step within 10%, memory to the byte
//	(gpipebench validation)
//	simulate Transformer-1663, K=128, M=32                  less than 5 s and 1 GiB
//	simulate a step of 3 K M tasks, K=128 and 512,          as long a task at each size; K=512 M=4096,
//	M=512 to 4096                                           10.5 million events: at most 10 s and 1.5 GB
//
// The last measurement is shown in results/reference/README.md, with a plot of the last row. `make bench
// OUT=results/reference reference`, on a machine that does nothing else, measures anew and
// writes that table; `go run -buildvcs=true ./bench -only step,remat -out results/reference` replaces only
// some rows, and -threads 1 leaves out steps on two threads.
package main
