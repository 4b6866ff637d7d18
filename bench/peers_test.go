package main

import (
	"math"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"

	"gpipebench/bench/rows"
	"gpipebench/gpipe"
	"gpipebench/internal/stats"
	"gpipebench/internal/testkit"
	"gpipebench/train"
)

// small are networks of every kind that rows are of.
var small = map[string]network{
	"lm": {model: train.Model{Name: train.LanguageModel, Layers: 2, Dim: 32, FF: 48, Heads: 4, Seq: 9, Vocab: 50}, batch: 3},
	"gpt2": {batch: 3, model: train.Model{
		Name: train.LanguageModel, Layers: 1, Dim: 32, FF: 48, Heads: 4, Seq: 9, Vocab: 50, Tied: "softmax", GELU: true, FinalNorm: true,
	}},
	"llama":     {model: train.Model{Name: train.Llama, Layers: 2, Dim: 32, FF: 48, Heads: 4, KVHeads: 2, Seq: 9, Vocab: 50, Tied: "softmax", RopeTheta: 100}, batch: 3},
	"gnmt":      {model: train.Model{Name: train.GNMT, Layers: 3, Dim: 16, Vocab: 50, Seq: 9}, batch: 3},
	"resnet50":  {model: train.Model{Name: "resnet50", Image: 64, Classes: 10}, batch: 4},
	"amoebanet": {model: train.Model{Name: train.AmoebaNet, Layers: 3, Filters: 16, Image: 64, Classes: 10}, batch: 8},
}

// TestPyTorchAgrees: from the same weights both sides have the same number of parameters and the
// same loss.
func TestPyTorchAgrees(t *testing.T) {
	if testing.Short() {
		t.Skip("imports PyTorch for each network")
	}
	if exec.Command("/usr/bin/python3", "-c", "import torch").Run() != nil {
		t.Skip("no PyTorch")
	}
	t.Chdir("..")
	for name, n := range small {
		note, err := n.compare("avx2" + map[bool]string{true: "-channels_last"}[n.model.Images()])
		testkit.Equal(t, err, nil, "%s", name)
		t.Log(name, note)
	}
}

// TestOneDNNAgrees: oneDNN computes every convolution and product of the networks, with the values
// of their definition, and both sides' time is found.
func TestOneDNNAgrees(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a program of oneDNN's")
	}
	if _, err := os.Stat("/usr/include/dnnl.hpp"); err != nil {
		t.Skip("no oneDNN")
	}
	t.Chdir("..")
	peer, remove, err := buildPeer("onednn.cpp", "-ldnnl")
	defer remove()
	testkit.NoError(t, err)
	for name, n := range small {
		s := testkit.Must(n.products(name, peer, 1, roofline{GFLOPS: 1, L2: 1, Memory: 1}))(t, "%s", name)
		found := map[string]int{}
		for _, f := range s.Figures {
			found[f.Name] += len(f.Values)
			if f.Values[0] <= 0 && f.Name != "reorders" {
				t.Errorf("%s: %v", name, f)
			}
		}
		if found["forward"] != 2 || found["ratio"] != 1 {
			t.Errorf("%s: %v", name, s)
		}
	}
	// A line without an operation that it knows, and all its sizes, is an error.
	for _, list := range []string{"product forward 4 4\n", "pool forward 1 2 3\n"} {
		cmd := exec.Command(peer)
		cmd.Stdin = strings.NewReader(list)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "no operation") {
			t.Errorf("%q: %v, %s", list, err, out)
		}
	}
}

// TestPeersUseAllLanes: OpenBLAS takes kernels for the processor's longest vectors, whatever it takes by
// itself, and both peers' notes say which.
func TestPeersUseAllLanes(t *testing.T) {
	if testing.Short() || !cpu.X86.HasAVX512BW {
		t.Skip("starts PyTorch, and is for processors with AVX-512")
	}
	for _, name := range []string{"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"} {
		t.Setenv(name, "") // so that the test puts back what unhindered unsets
	}
	unhindered()
	t.Chdir("..")
	wide := regexp.MustCompile("SkylakeX|Cooperlake|SapphireRapids")
	peer, remove, err := buildPeer("openblas.c", "-lopenblas", "-lm")
	defer remove()
	if err != nil {
		t.Skip(err)
	}
	if _, config, err := rateOf(peer, 64); err != nil || !wide.MatchString(config) {
		t.Errorf("%s, %v", config, err)
	}
	if exec.Command("/usr/bin/python3", "-c", "import torch").Run() != nil {
		t.Skip("no PyTorch")
	}
	if them, err := small["lm"].pytorch(1, 0, "1", "avx2"); err != nil || !wide.MatchString(them.BLAS) {
		t.Errorf("%s, %v", them.BLAS, err)
	}
}

// TestHeld: what the kinds of layers take is the step, none is named after a gradient or a fusion, and
// nothing is to take longer than it took.
func TestHeld(t *testing.T) {
	high, low := roofline{GFLOPS: 1e6, L2: 2e6, Memory: 1e6}, roofline{GFLOPS: 1, L2: 1e-3, Memory: 1e-3}
	for name, roof := range map[string]roofline{"lm": high, "gpt2": low, "llama": low, "gnmt": high} {
		s := testkit.Must(small[name].held(name, 2, roof))(t, "%s", name)
		var seconds, least float64
		for _, k := range s.Kinds {
			seconds, least = seconds+k.Seconds, least+k.Least
			if strings.ContainsAny(k.Name, "+") || strings.Contains(k.Name, "grad") && k.Name != gpipe.ClearRow || strings.Contains(k.Name, "matmul-") || k.Arithmetic > k.Least || k.Least > max(0, k.Seconds)*(1+1e-9) {
				t.Errorf("%s: %+v", name, k)
			}
		}
		step, atLeast := s.Figures[0].Values, s.Figures[1].Values[0]
		if mean := stats.Mean(step); len(step) != 2 || math.Abs(seconds/mean-1) > 1e-6 || math.Abs(least/atLeast-1) > 1e-6 || least == 0 {
			t.Errorf("%s: kinds take %v s and at least %v; %v", name, seconds, least, s)
		}
	}
	// 1e6 bytes stay in no second-level cache, 1e5 do.
	of := roofline{GFLOPS: 1, L2: 2, Memory: 1}
	if large, small, computing := of.seconds(0, 1e6), of.seconds(0, 1e5), of.seconds(1e9, 1e6); large != 1e-3 || small != 5e-5 || computing != 1 {
		t.Errorf("%v, %v and %v s", large, small, computing)
	}
}

// TestRows: every row is measured by something, and every network has a row.
func TestRows(t *testing.T) {
	listed := map[string]bool{}
	for _, r := range rows.List {
		if listed[r.Name] = true; runs[r.Name] == nil {
			t.Errorf("nothing measures %s", r.Name)
		}
	}
	for name := range networks {
		if !listed[name] {
			t.Errorf("no row %s", name)
		}
	}
}
