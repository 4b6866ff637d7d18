package ssd

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpipebench/internal/testkit"
	"gpipebench/models/internal/modeltest"
	"gpipebench/nn"
	"gpipebench/nn/trace"
)

func ExampleNew() {
	layers, err := New(Config{Classes: 81})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(layers), "layers,", nn.CountParams(layers), "parameters")
	// Output: 21 layers, 19972534 parameters
}

// conv is a convolution of MLPerf's SSD, as its sources print it.
type conv struct {
	kernel, in, out, size int // height and width of its output
	bias, norm            bool
}

// printed lists the convolutions of MLPerf's SSD: the backbone of
// single_stage_detector/ssd/README.md, section 4 (a 7x7 stem of 64 channels; conv2: three
// building blocks at 75x75x64, conv3: four at 38x38x128, conv4: six at 38x38x256, each two
// 3x3 convolutions, all followed by batch norm; the first of conv3 and of conv4 with a 1x1
// convolution instead of the identity), and the further maps and heads of
// ssd300.py, for 81 classes.
func printed() (all []conv) {
	add := func(kernel, in, out, size int, bias, norm bool) {
		all = append(all, conv{kernel, in, out, size, bias, norm})
	}
	add(7, 3, 64, 150, false, true)
	in := 64
	for _, group := range []struct{ blocks, channels, size int }{{3, 64, 75}, {4, 128, 38}, {6, 256, 38}} {
		for range group.blocks {
			add(3, in, group.channels, group.size, false, true)
			add(3, group.channels, group.channels, group.size, false, true)
			if in != group.channels {
				add(1, in, group.channels, group.size, false, true)
			}
			in = group.channels
		}
	}
	sizes, channels, defaults := []int{38, 19, 10, 5, 3, 1}, []int{256, 512, 512, 256, 256, 256}, []int{4, 6, 6, 6, 4, 4}
	for i, squeeze := range []int{0, 256, 256, 128, 128, 128} {
		if i > 0 {
			add(1, channels[i-1], squeeze, sizes[i-1], true, false)
			add(3, squeeze, channels[i], sizes[i], true, false)
		}
		add(3, channels[i], defaults[i]*4, sizes[i], true, false)
		add(3, channels[i], defaults[i]*81, sizes[i], true, false)
	}
	return all
}

// TestCounts: parameters and multiply-adds of MLPerf's SSD, in closed form from the
// printed convolutions, and its 8,732 boxes.
func TestCounts(t *testing.T) {
	var params, adds int64
	for _, c := range printed() {
		weight := int64(c.kernel * c.kernel * c.in * c.out)
		params += weight
		if c.bias {
			params += int64(c.out)
		}
		if c.norm {
			params += int64(2 * c.out)
		}
		adds += weight * int64(c.size*c.size)
	}
	for _, fine := range []bool{false, true} {
		c := Config{Classes: 81, Fine: fine}
		s := traced(t, c, 1)
		testkit.Equal(t, s.Out[0].Shape[1], 8732, "default boxes")
		testkit.Equal(t, nn.CountParams(build(t, c)), params, "fine %v: parameters", fine)
		testkit.Equal(t, modeltest.FLOPs(s), 2*adds, "fine %v: floating-point operations", fine)
	}
	t.Logf("%d parameters, %d multiply-adds", params, adds)
}

// TestFlow: the shapes of what the layers pass on.
func TestFlow(t *testing.T) {
	for image, want := range map[int][]string{
		300: {
			"stem (1,75,75,2)", "stage1/block3 (1,75,75,2)", "stage2/block4 (1,38,38,4)", "stage3/block6 (1,38,38,8)",
			"map1 (1,38,38,20) (1,38,38,16) (1,38,38,8)",
			"map2 (1,38,38,20) (1,38,38,16) (1,19,19,30) (1,19,19,24) (1,19,19,16)",
			"boxes (1,8732,5) (1,8732,4)",
		},
		64: {
			"stem (1,16,16,2)", "stage1/block3 (1,16,16,2)", "stage2/block4 (1,8,8,4)", "stage3/block6 (1,8,8,8)",
			"map1 (1,8,8,20) (1,8,8,16) (1,8,8,8)",
			"map2 (1,8,8,20) (1,8,8,16) (1,4,4,30) (1,4,4,24) (1,4,4,16)",
			"boxes (1,382,5) (1,382,4)", // 8x8x4 + 4x4x6 + 2x2x6 + 1x1x6
		},
	} {
		c := Config{Width: 2, Classes: 5, Image: image}
		shown := []string{"stem", "stage1/block3", "stage2/block4", "stage3/block6", "map1", "map2", "boxes"}
		got := slices.DeleteFunc(modeltest.Flow(build(t, c), traced(t, c, 1)), func(line string) bool {
			name, _, _ := strings.Cut(line, " ")
			return !slices.Contains(shown, name)
		})
		testkit.Equal(t, cmp.Diff(want, got), "", "images of %d (-want +got)", image)
	}
}

// TestMapsEnd: maps that an image is too small for are left out, whatever its size.
func TestMapsEnd(t *testing.T) {
	for image := 1; image <= 320; image++ {
		c := Config{Width: 2, Classes: 2, Image: image}
		maps := c.maps()
		for i, m := range maps {
			if m.size < 1 {
				t.Fatalf("images of %d: map %d of %d pixels", image, i+1, m.size)
			}
		}
		traced(t, c, 2) // panics if a map and what it is made of do not fit
		testkit.Equal(t, len(maps) == 6, image > 256, "images of %d: %d maps", image, len(maps))
	}
}

// TestZeroInit affects each block's last gain and nothing else.
func TestZeroInit(t *testing.T) {
	modeltest.Gains(t, build(t, Config{Width: 2, Classes: 2}), "")
	modeltest.Gains(t, build(t, Config{Width: 2, Classes: 2, ZeroInit: true}), "conv2/gamma")
}

func TestValidate(t *testing.T) {
	good := Config{Classes: 5}
	modeltest.Refuses(t, good, New, map[string]func(c *Config){
		"Classes is 0":                     func(c *Config) { c.Classes = 0 },
		"Width is 5, want an even number":  func(c *Config) { c.Width = 5 },
		"Width is -2, want an even number": func(c *Config) { c.Width = -2 },
		"Image is -1":                      func(c *Config) { c.Image = -1 },
		"Channels is -1":                   func(c *Config) { c.Channels = -1 },
		"Momentum is 1, want at least 0":   func(c *Config) { c.Momentum = 1 },
	})
}

func build(t *testing.T, c Config) []nn.Layer { return modeltest.Build(t, New, c) }

func traced(t *testing.T, c Config, examples int) *trace.Stage {
	t.Helper()
	of := c.withDefaults()
	return modeltest.Trace(build(t, c), of.Image, of.Channels, examples, true)
}
