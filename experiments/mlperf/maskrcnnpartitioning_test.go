package mlperf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// The network has as many parameters as torchvision says of its maskrcnn_resnet50_fpn
// (pytorch/vision, torchvision/models/detection/mask_rcnn.py, num_params), which also has 91
// classes and a frozen batch norm that does not count. Stem and first stage are not trained.
func TestMaskRCNNParams(t *testing.T) {
	s := loaded(t, "mask-rcnn-partitioning", maskRCNNPartitioning).Spec.maskRCNN
	var all, trained int
	for _, l := range []nn.Layer{s.first(), s.boxes().layer, s.masks().layer} {
		for _, p := range l.Params() {
			if strings.HasSuffix(p.Name, "weight") || !p.Frozen {
				all += p.Shape.Elems()
			}
			if !p.Frozen {
				trained += p.Shape.Elems()
			}
		}
	}
	const torchvision = 44_401_393
	testkit.Equal(t, all, torchvision, "parameters")
	frozen := 7*7*3*64 + (64*64 + 9*64*64 + 64*256 + 64*256) + 2*(256*64+9*64*64+64*256)
	testkit.Equal(t, all-trained, frozen, "are not trained")
}

// Multiply-adds of the layers, from tables of sizes.
func TestMaskRCNNFLOPs(t *testing.T) {
	s := loaded(t, "mask-rcnn-partitioning", maskRCNNPartitioning).Spec.maskRCNN
	of := func(in graph.Type, layer nn.Layer) int64 {
		t.Helper()
		a := testkit.Must(accelerator.Named("tpuv3"))(t)
		p, mini := pipelineOn(a, 1, in, layer)
		d := testkit.Must(p.Describe(mini))(t)
		return d.Layers[0].FLOPs
	}
	var want int
	conv := func(h, w, k, in, out int) { want += 2 * h * w * k * k * in * out }
	conv(416, 672, 7, 3, 64)
	for stage, size := range [][3]int{{208, 336, 3}, {104, 168, 4}, {52, 84, 6}, {26, 42, 3}} {
		h, w, width := size[0], size[1], 64<<stage
		for i := range size[2] {
			in, before := 4*width, 1 // rows and columns of the block's input over those of its output
			if i == 0 {
				in = 2 * width
				if stage == 0 {
					in = 64
				} else {
					before = 2
				}
				conv(h, w, 1, in, 4*width)
			}
			conv(before*h, before*w, 1, in, width)
			conv(h, w, 3, width, width)
			conv(h, w, 1, width, 4*width)
		}
		conv(h, w, 1, 4*width, 256)
		conv(h, w, 3, 256, 256)
	}
	var pixels int
	for _, size := range [][2]int{{208, 336}, {104, 168}, {52, 84}, {26, 42}, {13, 21}} {
		h, w := size[0], size[1]
		pixels += h * w
		conv(h, w, 3, 256, 256)
		conv(h, w, 1, 256, 3)
		conv(h, w, 1, 256, 12)
	}
	testkit.Equal(t, of(graph.Type{Shape: graph.Shape{832, 1344, 3}, DType: graph.F32}, s.first()), int64(want), "first stage")
	testkit.Equal(t, s.pixels(), pixels, "pixels of the pyramid")
	boxes, masks := s.boxes(), s.masks()
	testkit.Equal(t, of(boxes.input, boxes.layer), 2*512*(7*7*256*1024+1024*1024+1024*91+1024*4*91), "boxes")
	testkit.Equal(t, of(masks.input, masks.layer), 2*128*(4*14*14*9*256*256+14*14*256*4*256+28*28*256*91), "masks")
}

// With links, starts of operations and memory that take no time four cores take a quarter of
// the first stage, but for rows that some have more; and an image's share of memory is what
// is handed on.
func TestMaskRCNNModel(t *testing.T) {
	s := loaded(t, "mask-rcnn-partitioning", maskRCNNPartitioning).Spec
	on := func(text string, cores int) maskRCNNStep {
		t.Helper()
		file := filepath.Join(t.TempDir(), "own.yaml")
		testkit.NoError(t, os.WriteFile(file, []byte("name: own\nflops: {bf16: 1e12, f32: 1e12}\nmemory: 16GiB\noverhead: 0\n"+text), 0o600))
		a := testkit.Must(accelerator.Named(file))(t)
		return testkit.Must(s.model(a, 2, cores))(t)
	}
	const free = "bandwidth: 1e18\nlink: {bandwidth: 1e18, latency: 0}\n"
	one, four := on(free, 1), on(free, 4)
	if got := one.First.Seconds() / four.First.Seconds(); got < 3.8 || got > 4 {
		t.Errorf("four cores: first stage %v times as fast", got)
	}
	if one.Boxes != four.Boxes || one.Masks != four.Masks || one.First != (gpipe.SpatialEstimate{Even: one.First.Even}) {
		t.Errorf("one core %+v, four %+v", one, four)
	}
	// What is not trained has no gradients: the stem's and the first stage's B.
	s.Frozen = 0
	if all := on(free, 1); all.First.Seconds() < 1.05*one.First.Seconds() {
		t.Errorf("a first stage that is trained takes %v s, a frozen one %v", all.First.Seconds(), one.First.Seconds())
	}
	s.Frozen = 1
	const slow = "bandwidth: 1e9\nlink: {bandwidth: 1e6, latency: 0.5}\n"
	pyramid := 2 * 2 * 256 * float64(208*336+104*168+52*84+26*42+13*21) // bytes of two images
	for cores, want := range map[int]float64{1: 4 * pyramid / 1e9, 4: (1+3./4)*pyramid/1e9 + 2*(0.5+pyramid/4/1e6)} {
		testkit.Near(t, on(slow, cores).Handed, want, 1e-9*want, "%d cores: seconds to hand on", cores)
	}
}
