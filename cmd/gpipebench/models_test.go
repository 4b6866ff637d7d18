package main

import (
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// A published name in place of a network's sets the sizes that are not given, of every command with a
// network, and the network is then called by its family's name.
func TestPublishedNames(t *testing.T) {
	for line, want := range map[string]string{
		"describe --model llama2-7b":                                      "llama: 6738415616 parameters",
		"describe --model llama3-405b -k 8":                               "llama: 405853388800 parameters",
		"describe --model llama2-7b --layers 2 --vocab 1000 --kv-heads 8": "llama: 362631168 parameters",
		"describe --model smollm2-135m --tied none":                       "llama: 162826560 parameters",
		"train --model smollm2-135m --seq 64 --dry": "gpipebench train --model=llama --layers=30 --dim=576 --ff=1536 --heads=9 --kv-heads=3 " +
			"--vocab=49152 --seq=64 --tied=softmax --rope-theta=100000",
		"simulate --model llama3-8b --device h100 --batch 4 -k 2 -m 2":                                 "8030261248 parameters on 2 x h100",
		"simulate --model llama3-70b --device h100 --batch 4 -k 2 -m 2 --tensor 8 --sequence-parallel": "70553706496 parameters on 2 x 8 x h100",
	} {
		out, _ := succeeds(t, strings.Fields(line)...)
		testkit.Has(t, out, want)
	}
	for _, command := range []string{"plan", "train", "describe", "calibrate"} {
		status, _, errs := execute(t, command, "--model=llama-7b")
		testkit.Equal(t, status, 2)
		testkit.Has(t, errs, "ssd-resnet34, llama, llama2-7b, llama2-13b")
		help, _ := succeeds(t, command, "--help")
		testkit.Has(t, strings.Join(strings.Fields(help), " "), "ssd-resnet34, llama, or a published llama such as llama3-8b")
	}
}
