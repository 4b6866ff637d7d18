package amoebanet

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpipebench/internal/testkit"
	"gpipebench/models/internal/modeltest"
	"gpipebench/nn"
	"gpipebench/nn/graph/op"
	"gpipebench/nn/trace"
)

func ExampleNew() {
	layers, err := New(Config{Layers: 6, Filters: 64, Classes: 1000})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range layers {
		fmt.Println(l.Name(), nn.CountParams([]nn.Layer{l}))
	}
	fmt.Println(nn.CountParams(layers), "parameters")
	// Output:
	// stem 464
	// reduction1 4944
	// reduction2 22048
	// normal1 43072
	// normal2 53312
	// reduction3 123456
	// normal3 178304
	// normal4 211072
	// reduction4 490624
	// normal5 708864
	// normal6 839936
	// classifier 1025000
	// 3701096 parameters
}

// TestParameters: the parameters of GPipe's Table 1 (81.5M, 319.0M, 542.7M,
// 1.06B, 1.84B in torchgpipe, and the same in the paper), and those of its
// other models, counted by hand from the same definition.
func TestParameters(t *testing.T) {
	for _, c := range []struct {
		layers, filters int
		want            int64
	}{
		{18, 128, 31_694_440}, {18, 208, 81_505_540}, {18, 256, 122_470_120}, {18, 416, 319_024_120},
		{18, 544, 542_734_840}, {36, 544, 1_055_832_376}, {72, 512, 1_844_858_344},
		{12, 512, 329_758_184}, {6, 32, 1_187_448}, {6, 64, 3_701_096},
	} {
		for _, delayed := range []bool{false, true} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			layers := build(t, Config{Layers: c.layers, Filters: c.filters, Classes: 1000, Delayed: delayed})
			runtime.ReadMemStats(&after)
			if got := nn.CountParams(layers); got != c.want || len(layers) != c.layers+6 {
				t.Errorf("(%d, %d), delayed %v: %d parameters in %d layers, want %d in %d", c.layers, c.filters, delayed, got, len(layers), c.want, c.layers+6)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
				t.Errorf("(%d, %d): %d bytes to build", c.layers, c.filters, used)
			}
		}
	}
}

// TestMultiplyAdds: 15.17 G per image for (18, 256) at 224x224. SAME padding
// counts as pixels.
func TestMultiplyAdds(t *testing.T) {
	c := Config{Layers: 18, Filters: 256, Classes: 1000}
	flops := modeltest.FLOPs(traced(t, c, 1, true))
	testkit.Equal(t, fmt.Sprintf("%.2f", float64(flops)/2e9), "15.17")
}

// TestOfficial: [A]'s stem and auxiliary head, counted by hand. The parameters
// are within 0.4% of those of the definition at (18, 208) and above.
func TestOfficial(t *testing.T) {
	c := Config{Layers: 18, Filters: 208, Classes: 1000, Official: true, Aux: true}
	got := nn.CountParams(build(t, c))
	testkit.Equal(t, got, int64(81_781_529), "parameters")
	c.Aux = false
	testkit.Equal(t, nn.CountParams(build(t, c)), int64(81_137_437), "parameters without the auxiliary head")
}

// TestAmoebaNetB: the 557M parameters of GPipe's section 4, and others counted by
// hand from the same definition; with the auxiliary head, which an evaluation
// lacks, on images of 480x480.
func TestAmoebaNetB(t *testing.T) {
	for _, c := range []struct {
		layers, filters int
		aux             bool
		want            int64
	}{
		{18, 512, false, 557_277_864}, {18, 512, true, 559_063_693}, {18, 256, false, 141_747_368}, {6, 32, false, 1_321_292}, {3, 16, false, 380_233},
	} {
		layers := build(t, Config{Cells: B, Layers: c.layers, Filters: c.filters, Classes: 1000, Image: 480, Aux: c.aux})
		if got := nn.CountParams(layers); got != c.want || len(layers) != c.layers+6 {
			t.Errorf("(%d, %d): %d parameters in %d layers, want %d in %d", c.layers, c.filters, got, len(layers), c.want, c.layers+6)
		}
	}
}

// TestFlow: the output shapes of every layer, for all variants.
func TestFlow(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		train  bool
		want   []string
	}{
		{"plain", func(*Config) {}, true, []string{
			"stem (2,16,16,2)", "reduction1 (2,8,8,12) (2,16,16,2)", "reduction2 (2,4,4,24) (2,8,8,12)",
			"normal1 (2,4,4,32) (2,4,4,24)", "reduction3 (2,2,2,48) (2,4,4,32)", "normal2 (2,2,2,64) (2,2,2,48)",
			"reduction4 (2,1,1,96) (2,2,2,64)", "normal3 (2,1,1,128) (2,1,1,96)", "classifier (2,5)",
		}},
		{"odd", func(c *Config) { c.Image = 37 }, true, []string{
			"stem (2,19,19,2)", "reduction1 (2,10,10,12) (2,19,19,2)", "reduction2 (2,5,5,24) (2,10,10,12)",
			"normal1 (2,5,5,32) (2,5,5,24)", "reduction3 (2,3,3,48) (2,5,5,32)", "normal2 (2,3,3,64) (2,3,3,48)",
			"reduction4 (2,2,2,96) (2,3,3,64)", "normal3 (2,2,2,128) (2,2,2,96)", "classifier (2,5)",
		}},
		{"delayed", func(c *Config) { c.Delayed = true }, true, []string{
			"stem (2,32,32,2)", "reduction1 (2,16,16,12) (2,32,32,2)", "reduction2 (2,8,8,24) (2,16,16,12)",
			"normal1 (2,8,8,32) (2,8,8,24)", "reduction3 (2,4,4,48) (2,8,8,32)", "normal2 (2,4,4,64) (2,4,4,48)",
			"reduction4 (2,2,2,96) (2,4,4,64)", "normal3 (2,1,1,128) (2,2,2,96)", "classifier (2,5)",
		}},
		{"auxiliary", func(c *Config) { c.Aux = true }, true, []string{
			"stem (2,16,16,2)", "reduction1 (2,8,8,12) (2,16,16,2)", "reduction2 (2,4,4,24) (2,8,8,12)",
			"normal1 (2,4,4,32) (2,4,4,24)", "reduction3 (2,2,2,48) (2,4,4,32)", "normal2 (2,2,2,64) (2,2,2,48) (2,5)",
			"reduction4 (2,1,1,96) (2,2,2,64) (2,5)", "normal3 (2,1,1,128) (2,1,1,96) (2,5)", "classifier (2,5) (2,5)",
		}},
		{"auxiliary, evaluating", func(c *Config) { c.Aux = true }, false, []string{
			"stem (2,16,16,2)", "reduction1 (2,8,8,12) (2,16,16,2)", "reduction2 (2,4,4,24) (2,8,8,12)",
			"normal1 (2,4,4,32) (2,4,4,24)", "reduction3 (2,2,2,48) (2,4,4,32)", "normal2 (2,2,2,64) (2,2,2,48)",
			"reduction4 (2,1,1,96) (2,2,2,64)", "normal3 (2,1,1,128) (2,1,1,96)", "classifier (2,5)",
		}},
		{"official", func(c *Config) { c.Official, c.Filters = true, 16 }, true, []string{
			"stem (2,15,15,32)", "reduction1 (2,8,8,12) (2,15,15,32)", "reduction2 (2,4,4,24) (2,8,8,12)",
			"normal1 (2,4,4,64) (2,4,4,24)", "reduction3 (2,2,2,96) (2,4,4,64)", "normal2 (2,2,2,128) (2,2,2,96)",
			"reduction4 (2,1,1,192) (2,2,2,128)", "normal3 (2,1,1,256) (2,1,1,192)", "classifier (2,5)",
		}},
		{"AmoebaNet-B", func(c *Config) { c.Cells, c.Filters = B, 16 }, true, []string{
			"stem (2,15,15,32)", "reduction1 (2,8,8,8) (2,15,15,32)", "reduction2 (2,4,4,16) (2,8,8,8)",
			"normal1 (2,4,4,64) (2,4,4,16)", "reduction3 (2,2,2,64) (2,4,4,64)", "normal2 (2,2,2,128) (2,2,2,64)",
			"reduction4 (2,1,1,128) (2,2,2,128)", "normal3 (2,1,1,256) (2,1,1,128)", "classifier (2,5)",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := Config{Layers: 3, Filters: 8, Classes: 5, Image: 32}
			c.change(&config)
			testkit.Equal(t, cmp.Diff(c.want, modeltest.Flow(build(t, config), traced(t, config, 2, c.train))), "", "-want +got")
		})
	}
}

// TestDropPathRises: with the cells, with the steps, or with both; every branch of a cell except
// the identities, 8 of 10 in either kind.
func TestDropPathRises(t *testing.T) {
	cells := []string{"reduction1", "reduction2", "normal1", "reduction3", "normal2", "reduction4", "normal3"}
	for _, kind := range []Cells{D, B} {
		for _, c := range []struct {
			even  bool
			steps int
		}{{false, 0}, {true, 50}, {false, 50}} {
			s := traced(t, Config{
				Cells: kind, Layers: 3, Filters: 16, Classes: 5, Image: 32, DropPath: 0.7, DropPathSteps: c.steps, DropPathEven: c.even,
			}, 2, true)
			branches := map[string]bool{}
			for _, call := range s.Function.Graph.Calls {
				o, ok := call.Op.(op.DropPath)
				if !ok {
					continue
				}
				branches[o.Path] = true
				cell, _, _ := strings.Cut(o.Path, "/")
				want := 0.7
				if !c.even {
					want = 0.1 * float64(1+slices.Index(cells, cell))
				}
				if math.Abs(float64(o.Rate)-want) > 1e-6 || o.Over != c.steps {
					t.Errorf("cells %d, even %v: %s has rate %v over %d steps, want %v over %d", kind, c.even, o.Path, o.Rate, o.Over, want, c.steps)
				}
			}
			testkit.Equal(t, len(branches), 7*8, "cells %d: dropped branches", kind)
		}
	}
}

// TestOptionsReachTheLayers: dropout's and batch norm's options.
func TestOptionsReachTheLayers(t *testing.T) {
	c := Config{Layers: 3, Filters: 8, Classes: 5, Image: 32, Dropout: 0.5, Momentum: 0.75}
	s := traced(t, c, 2, true)
	dropped := ""
	for _, call := range s.Function.Graph.Calls {
		switch o := call.Op.(type) {
		case op.Dropout:
			dropped += fmt.Sprint(o.Path, " ", o.Rate)
		case op.BatchNormStats:
			testkit.Equal(t, o.Eps, 1e-3, "eps")
		}
	}
	testkit.Equal(t, dropped, "classifier/dropout 0.5", "dropouts")
	for _, m := range s.Moving {
		if m.Momentum != 0.75 || !m.Unbiased {
			t.Errorf("%s: momentum %v, unbiased %v", m.Mean.Name, m.Momentum, m.Unbiased)
		}
	}
	testkit.Equal(t, len(traced(t, c, 2, false).Moving), 0, "averages that an evaluation moves")
}

func TestValidate(t *testing.T) {
	good := Config{Layers: 3, Filters: 16, Classes: 5, Image: 17}
	modeltest.Refuses(t, good, New, map[string]func(c *Config){
		"Layers is 0, want a multiple of 3":    func(c *Config) { c.Layers = 0 },
		"Layers is 4, want a multiple of 3":    func(c *Config) { c.Layers = 4 },
		"Filters is 12, want a multiple of 8":  func(c *Config) { c.Filters = 12 },
		"Filters is -8, want a multiple of 8":  func(c *Config) { c.Filters = -8 },
		"Filters is 24, want a multiple of 16": func(c *Config) { c.Filters, c.Official, c.Image = 24, true, 0 },
		"Filters is 8, want a multiple of 16":  func(c *Config) { c.Filters, c.Cells, c.Image = 8, B, 0 },
		"unknown Cells 2":                      func(c *Config) { c.Cells = 2 },
		"DropPathSteps is -1":                  func(c *Config) { c.DropPathSteps = -1 },
		"Classes is 0":                         func(c *Config) { c.Classes = 0 },
		"Channels is -1":                       func(c *Config) { c.Channels = -1 },
		"images of 16 pixels are too small to be halved five times, want at least 17": func(c *Config) { c.Image = 16 },
		"images of -1 pixels": func(c *Config) { c.Image = -1 },
		"images of 18 pixels are too small to be halved five times, want at least 19": func(c *Config) { c.Image, c.Official = 18, true },
		"images of 15 pixels are too small to be halved five times, want at least 17": func(c *Config) { c.Image, c.Delayed = 15, true },
		"DropPath is 1":                        func(c *Config) { c.DropPath = 1 },
		"Dropout is -0.5":                      func(c *Config) { c.Dropout = -0.5 },
		"AuxScale is 0.4 without an auxiliary": func(c *Config) { c.AuxScale = 0.4 },
		"AuxScale is 0.001, want 1/128":        func(c *Config) { c.Aux, c.AuxScale = true, 0.001 },
		"Momentum is 1, want":                  func(c *Config) { c.Momentum = 1 },
	})
	// The smallest images pass through every variant.
	for _, c := range []Config{
		{Layers: 3, Filters: 16, Classes: 5, Image: 17, Aux: true},
		{Layers: 3, Filters: 16, Classes: 5, Image: 17, Aux: true, Delayed: true},
		{Layers: 3, Filters: 16, Classes: 5, Image: 19, Aux: true, Official: true},
		{Layers: 3, Filters: 16, Classes: 5, Image: 19, Aux: true, Cells: B},
	} {
		traced(t, c, 2, true)
	}
}

func build(t *testing.T, c Config) []nn.Layer { return modeltest.Build(t, New, c) }

// traced traces a whole model for n images.
func traced(t *testing.T, c Config, n int, train bool) *trace.Stage {
	t.Helper()
	of := c.withDefaults()
	return modeltest.Trace(build(t, c), of.Image, of.Channels, n, train)
}
