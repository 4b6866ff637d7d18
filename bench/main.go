package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gpipebench/bench/rows"
	"gpipebench/lab/records"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == measureCommand {
		os.Exit(measure(os.Args[2], os.Args[3:]))
	}
	command := flag.String("gpipebench", "bin/gpipebench", "the built command, which is run for whole-process rows")
	only := flag.String("only", "", "comma-separated rows: "+strings.Join(names(), ", "))
	out := flag.String("out", filepath.Join("results", "local"), "directory of results; its records/bench.jsonl gets the samples")
	rounds := flag.Int("rounds", 7, "measurements of each side, taken in turns")
	threads := flag.String("threads", "1,2", "comma-separated threads of rows of training steps")
	flag.Parse()
	if flag.NArg() > 0 || *rounds < 1 {
		flag.Usage()
		os.Exit(2)
	}
	chosen := names()
	if *only != "" {
		chosen = strings.Split(*only, ",")
	}
	for _, name := range chosen {
		if runs[name] == nil {
			fmt.Fprintf(os.Stderr, "bench: no row %q: want some of %s\n", name, strings.Join(names(), ", "))
			os.Exit(2)
		}
	}
	unhindered()
	b := bench{command: *command, rounds: *rounds, threads: strings.Split(*threads, ",")}
	for _, n := range b.threads {
		if i, err := strconv.Atoi(n); err != nil || i < 1 {
			fmt.Fprintf(os.Stderr, "bench: -threads %s: want numbers such as 1,2\n", *threads)
			os.Exit(2)
		}
	}
	if err := b.measureRows(*out, chosen); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// unhindered unsets what a shell may say of OpenBLAS, such as kernels of an older processor: the peers
// choose the best themselves, and the notes of their rows have the name.
func unhindered() {
	for _, name := range []string{"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"} {
		_ = os.Unsetenv(name)
	}
}

// measureRows measures the chosen rows, and prints why a row cannot be measured.
func (b *bench) measureRows(out string, chosen []string) (err error) {
	if b.log, err = records.Open(records.File(out, rows.Key().Experiment), rows.Key(), true); err != nil {
		return err
	}
	for _, b.row = range rows.List {
		if !slices.Contains(chosen, b.row.Name) {
			continue
		}
		fmt.Printf("\n%s (target: %s)\n", b.row.Title, b.row.Reach)
		if err := runs[b.row.Name](b); err != nil {
			fmt.Printf("  not measured: %v\n", err)
		}
	}
	return b.log.Close()
}

// runs measure each row.
var runs = map[string]func(*bench) error{
	"roof": (*bench).roof, "sgemm": (*bench).sgemm, "kernels": (*bench).kernels, "roofline": (*bench).rooflines,
	"step": (*bench).steps, "gpt2": (*bench).steps, "gpt2-512": (*bench).steps, "smollm2": (*bench).steps,
	"resnet": (*bench).steps, "resnet50": (*bench).steps, "amoebanet": (*bench).steps, "translator": (*bench).steps,
	"pipeline": (*bench).pipeline, "emulated": (*bench).emulated, "remat": (*bench).remat, "simulate": (*bench).simulate,
	"simulate-scale": (*bench).simulateScale,
	"replicas":       (*bench).replicas, "reduction": (*bench).reduction, "emulated-replicas": (*bench).emulatedReplicas,
}

func names() (all []string) {
	for _, r := range rows.List {
		all = append(all, r.Name)
	}
	return all
}

type bench struct {
	command string
	rounds  int
	threads []string // of rows of training steps
	row     rows.Row // the one that is measured
	log     *records.Log
}

// add prints and records what was measured for a line of the row.
func (b *bench) add(s *rows.Sample) error {
	fmt.Printf("  %s: %v\n", s.What, s)
	return b.log.Add(b.row.SampleName(s), 0, s)
}

// ratios returns those of each round.
func ratios(a, b []float64) []float64 {
	all := make([]float64, len(a))
	for i := range a {
		all[i] = a[i] / b[i]
	}
	return all
}
