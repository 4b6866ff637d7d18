// Command bench prints the rows of "How good is good" in docs/design.md: this
// program's speed beside that of its peers, measured in the same run, one thing
// at a time, in turns, as medians. It asserts nothing.
//
// Peers that are not installed are said to be missing: OpenBLAS
// (bench/peers/openblas.c, needs a C compiler and libopenblas-dev) and PyTorch
// (bench/peers/pytorch.py, needs python3-torch).
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == measureCommand {
		os.Exit(measure(os.Args[2], os.Args[3:]))
	}
	command := flag.String("gpipebench", "bin/gpipebench", "the built command, which is run for whole-process rows")
	only := flag.String("only", "", "comma-separated rows: "+strings.Join(names(), ", "))
	rounds := flag.Int("rounds", 7, "measurements of each side, taken in turns")
	// A row's turns are processes of their own, so that their memory is theirs alone.
	of := flag.String("step-of", "", "time the steps of an image model in this process and print JSON, as the rows do in processes of their own")
	threads := flag.Int("threads", 1, "of -step-of")
	steps := flag.Int("steps", 4, "of -step-of, behind one that warms up")
	save := flag.String("save", "", "of -step-of: write the weights it starts from to this file")
	flag.Parse()
	if flag.NArg() > 0 || *rounds < 1 {
		flag.Usage()
		os.Exit(2)
	}
	if *of != "" {
		if err := stepOf(*of, *threads, *steps, *save); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	chosen := names()
	if *only != "" {
		chosen = strings.Split(*only, ",")
	}
	b := bench{command: *command, rounds: *rounds}
	for _, name := range chosen {
		i := slices.IndexFunc(rows, func(r row) bool { return r.name == name })
		if i < 0 {
			fmt.Fprintf(os.Stderr, "bench: no row %q: want some of %s\n", name, strings.Join(names(), ", "))
			os.Exit(2)
		}
		fmt.Printf("\n%s\n", rows[i].title)
		if err := rows[i].run(&b); err != nil {
			fmt.Printf("  not measured: %v\n", err)
		}
	}
}

// row is one line of the table in docs/design.md.
type row struct {
	name, title string
	run         func(b *bench) error
}

var rows = []row{
	{"sgemm", "SGEMM, one core, GFLOP/s (reach: 0.95 of OpenBLAS)", (*bench).sgemm},
	{"step", "training step of transformer-lm L6 d256 ff1024 h8 seq128 vocab8192 batch16, SGD momentum (reach: not slower than PyTorch, aim for 0.8 of its time)", (*bench).step},
	{"resnet", "training step of ResNet-101, 64x64 batch 16, SGD momentum (reach: not slower than PyTorch, aim for 0.8 of its time)", (*bench).resnet},
	{"amoebanet", "training step of AmoebaNet-D (6, 64), 224x224 batch 4, SGD momentum (reach: not slower than PyTorch, aim for 0.8 of its time)", (*bench).amoebanet},
	{"pipeline", "K=2 on two cores against K=1 on one, even transformer, M=16 (reach: 0.95 of the closed form)", (*bench).pipeline},
	{"emulated", "emulated K=2 against real K=2 (reach: within 5%)", (*bench).emulated},
	{"remat", "re-materialisation, K=1, checkpoint always against never (reach: 1.34)", (*bench).remat},
	{"simulate", "simulate Transformer-1663, K=128, M=32 (reach: 5 s, 1 GiB)", (*bench).simulate},
}

func names() []string {
	var ns []string
	for _, r := range rows {
		ns = append(ns, r.name)
	}
	return ns
}

type bench struct {
	command string
	rounds  int
}

func median(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	n := len(xs)
	if n == 0 {
		return 0
	}
	return (xs[(n-1)/2] + xs[n/2]) / 2
}
