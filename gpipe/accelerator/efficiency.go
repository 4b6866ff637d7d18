package accelerator

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"gpipebench/gpipe/clock"
	"gpipebench/internal/kernel/exactmath"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// Efficiency is the share of a peak that one kind of work reaches, as others have
// measured and published it.
type Efficiency struct {
	// Of is a kind of product ([program.Instr.Product]), Memory or Link.
	Of string
	// DType is the type of the product's operands; "": any.
	DType string
	// Points are ascending by size. Between two of them the share is interpolated
	// over the size's logarithm, and outside equals the nearest point's.
	Points []Point
	// Source says where the figures are from. It begins with verified (read at the
	// source), excerpt (only a quotation was at hand), assumed, or calibrated (fitted here to
	// a throughput that was published).
	Source string
	// Kind is datasheet, microbenchmark, assumed or training, as of [Accelerator.Kinds].
	Kind string
}

// Calibrated reports whether some share was fitted to a published throughput.
func (a *Accelerator) Calibrated() bool {
	return slices.ContainsFunc(a.Efficiencies, func(e Efficiency) bool { return strings.HasPrefix(e.Source, "calibrated") })
}

// Point is a share for products whose smallest dimension is Size, above 0 and perhaps
// above 1: an algorithm may need fewer operations than are counted (Winograd's).
// Low and High are the band of what was published; both are Share if there is none.
type Point struct {
	Size             int
	Share, Low, High float64
}

// What an Efficiency can be of, besides products and ownBandwidth.
const (
	Memory = "memory" // a share of the memory's bandwidth
	Link   = "link"   // of the link's bandwidth
	Far    = "far"    // of the far link's bandwidth
)

// efficiencyKinds are what a file may have efficiencies of.
var efficiencyKinds = []string{
	"dense", "dense-fp8", "attention", "attention-grad",
	"conv", "conv-input-grad", "conv-weight-grad",
	"conv-1x1", "conv-1x1-input-grad", "conv-1x1-weight-grad",
	"conv-3x3", "conv-3x3-input-grad", "conv-3x3-weight-grad",
	"depthwise", "depthwise-input-grad", "depthwise-weight-grad",
	Memory, Link, Far,
}

// ownBandwidth are the operations that may have shares of their own of the memory's bandwidth.
var ownBandwidth = []string{"layer-norm", "layer-norm-grad", "layer-norm-param-grad", "dropout"}

// fallback is the kind whose efficiency a kind of product has if the file has none for
// it: a gradient of a window that of any window, then that of the forward, and
// everything that of dense products. Depthwise convolutions do not fall back on these:
// they are products of vectors, not of matrices, and their traffic bounds them.
var fallback = map[string]string{
	"attention": "dense", "attention-grad": "attention", "dense-fp8": "dense",
	"conv": "dense", "conv-input-grad": "conv", "conv-weight-grad": "conv",
	"conv-1x1": "conv", "conv-1x1-input-grad": "conv-input-grad", "conv-1x1-weight-grad": "conv-weight-grad",
	"conv-3x3": "conv", "conv-3x3-input-grad": "conv-input-grad", "conv-3x3-weight-grad": "conv-weight-grad",
	"depthwise-input-grad": "depthwise", "depthwise-weight-grad": "depthwise",
}

// efficiency finds that of a kind, or of what it falls back on; nil: none.
func (a *Accelerator) efficiency(kind string, dt graph.DType) *Efficiency {
	for ; kind != ""; kind = fallback[kind] {
		for i := range a.Efficiencies {
			if e := &a.Efficiencies[i]; e.Of == kind && (e.DType == "" || e.DType == dt.String()) {
				return e
			}
		}
	}
	return nil
}

// share is the share of its peak that a kind of work of a size reaches.
func (a *Accelerator) share(kind string, dt graph.DType, size int) float64 {
	if e := a.efficiency(kind, dt); e != nil {
		return e.at(size)
	}
	return 1
}

// Share is the share of its peak that a kind of work of any size reaches; 1: it is not known.
func (a *Accelerator) Share(kind string) float64 { return a.share(kind, graph.BF16, 1<<20) }

// productShare is the share of the peak that an instruction reaches; 1 if it is not a product.
func (a *Accelerator) productShare(in *program.Instr, dt graph.DType) float64 {
	if len(a.Efficiencies) == 0 {
		return 1
	}
	kind, least := in.Product()
	return a.share(kind, dt, least)
}

func (e *Efficiency) at(size int) float64 {
	p := e.Points
	i, found := slices.BinarySearchFunc(p, size, func(p Point, size int) int { return p.Size - size })
	switch {
	case found || i == 0:
		return p[i].Share
	case i == len(p):
		return p[i-1].Share
	}
	low, high := p[i-1], p[i]
	part := exactmath.Log(float64(size)/float64(low.Size)) / exactmath.Log(float64(high.Size)/float64(low.Size))
	return low.Share + float64(part*(high.Share-low.Share))
}

// bandwidth is the memory's bandwidth, as it is reached.
func (a *Accelerator) bandwidth() float64 { return a.Bandwidth * a.share(Memory, graph.F32, 0) }

// bandwidthOf is bandwidth for an operation, whose kernels may have been timed by themselves.
func (a *Accelerator) bandwidthOf(op string) float64 {
	i := slices.IndexFunc(a.Efficiencies, func(e Efficiency) bool { return e.Of == op })
	if i >= 0 && slices.Contains(ownBandwidth, op) {
		return a.Bandwidth * a.Efficiencies[i].at(0)
	}
	return a.bandwidth()
}

// Hop returns the link to the next device, as it is reached.
func (a *Accelerator) Hop() clock.Link { return a.Near(clock.Link{}) }

// Near is the link between devices of a group, as it is reached, in place of which a link with a
// bandwidth may be given; and FarHop that between groups: the near one if there is no other.
func (a *Accelerator) Near(given clock.Link) clock.Link { return a.reached(given, a.Link, Link) }

// FarHop: see Near.
func (a *Accelerator) FarHop(given clock.Link) clock.Link {
	if given.Bandwidth == 0 && a.Far.Bandwidth == 0 {
		return a.Near(given)
	}
	return a.reached(given, a.Far.Link, Far)
}

func (a *Accelerator) reached(given, own clock.Link, kind string) clock.Link {
	if given.Bandwidth > 0 {
		own.Bandwidth = given.Bandwidth
	}
	if given.Latency > 0 {
		own.Latency = given.Latency
	}
	own.Bandwidth *= a.share(kind, graph.F32, 0)
	return own
}

// Efficient names the efficiencies' shares in 8 letters: accelerators of the same peaks
// and the same name time all programs alike. It is "" if there are none.
func (a *Accelerator) Efficient() string {
	if len(a.Efficiencies) == 0 {
		return ""
	}
	h := sha256.New()
	for _, e := range a.Efficiencies {
		fmt.Fprintln(h, e.Of, e.DType)
		for _, p := range e.Points {
			fmt.Fprintln(h, p.Size, p.Share)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:8]
}
