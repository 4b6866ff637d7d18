package resnet

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpipebench/internal/testkit"
	"gpipebench/models/internal/modeltest"
	"gpipebench/nn"
	"gpipebench/nn/graph/op"
	"gpipebench/nn/trace"
)

func ExampleNew() {
	layers, err := New(Config{Blocks: [4]int{1, 2, 1, 1}, Width: 8, Classes: 10, Image: 32})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range layers {
		fmt.Println(l.Name(), nn.CountParams([]nn.Layer{l}))
	}
	// Output:
	// stem 1192
	// stage1/block1 1312
	// stage2/block1 6208
	// stage2/block2 4544
	// stage3/block1 24192
	// stage4/block1 95488
	// classifier 2570
}

// TestParameters: the numbers of parameters of torchvision's models.
func TestParameters(t *testing.T) {
	for depth, want := range map[int]int64{34: 21_797_672, 50: 25_557_032, 101: 44_549_160, 152: 60_192_808} {
		for _, fine := range []bool{false, true} {
			layers := build(t, Config{Depth: depth, Classes: 1000, Fine: fine})
			testkit.Equal(t, nn.CountParams(layers), want, "ResNet-%d, fine %v: parameters", depth, fine)
			// A block has three convolutions, a basic one two; the depth's other two
			// layers are stem and classifier.
			each := 3
			if depth == 34 {
				each = 2
			}
			units := (depth - 2) / each
			if fine {
				units *= each
			}
			testkit.Equal(t, len(layers), units+2, "ResNet-%d, fine %v: layers", depth, fine)
		}
	}
}

// The network of 20 layers for CIFAR-10 has 269,722 parameters with shortcuts that pad (He et al. 2016,
// Table 6: 0.27M), and 2,752 more in the two that are 1x1 convolutions with a norm; its stages end with
// 32, 16 and 8 pixels a side.
func TestSmall(t *testing.T) {
	for fine, layers := range map[bool]int{false: 11, true: 20} {
		c := Config{Depth: 20, Classes: 10, Image: 32, Fine: fine}
		all := build(t, c)
		if got := nn.CountParams(all); got != 269_722+2_752 || len(all) != layers {
			t.Errorf("fine %v: %d parameters in %d layers", fine, got, len(all))
		}
	}
	c := Config{Depth: 20, Width: 4, Classes: 10, Image: 32}
	if diff := cmp.Diff([]string{
		"stem (2,32,32,4)", "stage1/block1 (2,32,32,4)", "stage1/block2 (2,32,32,4)", "stage1/block3 (2,32,32,4)",
		"stage2/block1 (2,16,16,8)", "stage2/block2 (2,16,16,8)", "stage2/block3 (2,16,16,8)",
		"stage3/block1 (2,8,8,16)", "stage3/block2 (2,8,8,16)", "stage3/block3 (2,8,8,16)", "classifier (2,10)",
	}, modeltest.Flow(build(t, c), traced(t, c))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestMultiplyAdds: 7.80 G per image for ResNet-101 at 224x224.
func TestMultiplyAdds(t *testing.T) {
	flops := modeltest.FLOPs(traced(t, Config{Depth: 101, Classes: 1000}))
	if got := fmt.Sprintf("%.2f", float64(flops)/2/2e9); got != "7.80" { // two images
		t.Errorf("%s G multiply-adds, want 7.80", got)
	}
}

// TestFlow: the output shapes of every layer.
func TestFlow(t *testing.T) {
	for fine, want := range map[bool][]string{
		false: {
			"stem (2,8,8,4)", "stage1/block1 (2,8,8,16)", "stage2/block1 (2,4,4,32)", "stage2/block2 (2,4,4,32)",
			"stage3/block1 (2,2,2,64)", "stage4/block1 (2,1,1,128)", "classifier (2,5)",
		},
		true: {
			"stem (2,8,8,4)",
			"stage1/block1/conv1 (2,8,8,4) (2,8,8,4)", "stage1/block1/conv2 (2,8,8,4) (2,8,8,4)", "stage1/block1/conv3 (2,8,8,16)",
			"stage2/block1/conv1 (2,8,8,8) (2,8,8,16)", "stage2/block1/conv2 (2,4,4,8) (2,8,8,16)", "stage2/block1/conv3 (2,4,4,32)",
			"stage2/block2/conv1 (2,4,4,8) (2,4,4,32)", "stage2/block2/conv2 (2,4,4,8) (2,4,4,32)", "stage2/block2/conv3 (2,4,4,32)",
			"stage3/block1/conv1 (2,4,4,16) (2,4,4,32)", "stage3/block1/conv2 (2,2,2,16) (2,4,4,32)", "stage3/block1/conv3 (2,2,2,64)",
			"stage4/block1/conv1 (2,2,2,32) (2,2,2,64)", "stage4/block1/conv2 (2,1,1,32) (2,2,2,64)", "stage4/block1/conv3 (2,1,1,128)",
			"classifier (2,5)",
		},
	} {
		c := Config{Blocks: [4]int{1, 2, 1, 1}, Width: 4, Classes: 5, Image: 32, Fine: fine}
		testkit.Equal(t, cmp.Diff(want, modeltest.Flow(build(t, c), traced(t, c))), "", "fine %v (-want +got)\n", fine)
	}
}

// TestZeroInit affects each block's last gain and nothing else.
func TestZeroInit(t *testing.T) {
	c := Config{Blocks: [4]int{1, 1, 1, 1}, Width: 4, Classes: 5}
	modeltest.Gains(t, build(t, c), "")
	c.ZeroInit = true
	modeltest.Gains(t, build(t, c), "conv3/gamma")
}

// TestOptionsReachTheLayers: the options of batch norm.
func TestOptionsReachTheLayers(t *testing.T) {
	c := Config{Blocks: [4]int{1, 1, 1, 1}, Width: 4, Classes: 5, Image: 32, Momentum: 0.75}
	s := traced(t, c)
	testkit.Equal(t, len(s.Moving), 1+4*4, "batch norms")
	for _, m := range s.Moving {
		if m.Momentum != 0.75 || !m.Unbiased {
			t.Errorf("%s: momentum %v, unbiased %v", m.Mean.Name, m.Momentum, m.Unbiased)
		}
	}
	for _, call := range s.Function.Graph.Calls {
		if o, ok := call.Op.(op.BatchNormStats); ok && o.Eps != 1e-5 {
			t.Errorf("eps %v", o.Eps)
		}
	}
}

func TestValidate(t *testing.T) {
	good := Config{Depth: 50, Classes: 5}
	modeltest.Refuses(t, good, New, map[string]func(c *Config){
		"Depth is 18, want 20, 34, 50, 101 or 152": func(c *Config) { c.Depth = 18 },
		"Depth and Blocks: want one of them":       func(c *Config) { c.Blocks = [4]int{1, 1, 1, 1} },
		"Depth and Basic: want Basic with Blocks":  func(c *Config) { c.Basic = true },
		"Blocks is [1 0 1 1], want at least 1":     func(c *Config) { c.Depth, c.Blocks = 0, [4]int{1, 0, 1, 1} },
		"Blocks is [0 0 0 0], want at least 1":     func(c *Config) { c.Depth = 0 },
		"Width is -1":                              func(c *Config) { c.Width = -1 },
		"Classes is 0":                             func(c *Config) { c.Classes = 0 },
		"Image is -1":                              func(c *Config) { c.Image = -1 },
		"Channels is -1":                           func(c *Config) { c.Channels = -1 },
		"Momentum is -0.5, want at least 0":        func(c *Config) { c.Momentum = -0.5 },
	})
}

func build(t *testing.T, c Config) []nn.Layer { return modeltest.Build(t, New, c) }

// traced traces a whole model for two images.
func traced(t *testing.T, c Config) *trace.Stage {
	t.Helper()
	of := c.withDefaults()
	return modeltest.Trace(build(t, c), of.Image, of.Channels, 2, true)
}
