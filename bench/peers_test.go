package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"gpipebench/bench/rows"
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
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range small {
		s, err := n.products(name, peer, 1, roofline{GFLOPS: 1, Memory: 1})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
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
