package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"gpipebench/bench/rows"
	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn/program"
)

// kernels compares the convolutions and matrix products of whole steps with oneDNN's. Ours are timed
// within steps of the network, with the biases, activations and additions that are fused with
// them; theirs one after another in the same order, in buffers of their own. Sides take turns.
func (b *bench) kernels() error {
	peer, remove, missing := buildPeer("onednn.cpp", "-ldnnl")
	defer remove()
	roof, err := measureRoof()
	if err != nil {
		return err
	}
	for _, name := range []string{"step", "gpt2", "gpt2-512", "smollm2", "resnet50", "amoebanet", "translator"} {
		s, err := networks[name].products(name, peer, b.rounds, roof)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := b.add(s); err != nil {
			return err
		}
	}
	if missing != nil {
		return fmt.Errorf("oneDNN: %w", missing)
	}
	return nil
}

// productTime is where a step's time goes, in seconds.
type productTime struct {
	Forward float64 `json:"forward"`
	Input   float64 `json:"input"`   // gradients of inputs
	Weight  float64 `json:"weight"`  // gradients of weights
	Reorder float64 `json:"reorder"` // the peer's, of weights, once a step
	step    float64
}

func (p productTime) sum() float64 { return p.Forward + p.Input + p.Weight }

// products measures those of one network; without a peer only ours.
func (n network) products(name, peer string, rounds int, roof roofline) (s *rows.Sample, err error) {
	t, batch, err := n.open()
	if err != nil {
		return nil, err
	}
	defer t.Close()
	var now productTime
	var list []string
	var least float64
	t.Watch(func(run gpipe.KernelRun) {
		task, line := productOf(run)
		if line == "" {
			return
		}
		list = append(list, line)
		least += roof.seconds(run.Instr.Work())
		*map[string]*float64{"forward": &now.Forward, "input": &now.Input, "weight": &now.Weight}[task] += run.Seconds
	})
	step := func() (productTime, error) {
		now, list, least = productTime{}, nil, 0
		r, err := t.Step(context.Background(), batch)
		if err != nil {
			return now, err
		}
		now.step = r.Seconds
		return now, nil
	}
	if _, err := step(); err != nil { // warms up
		return nil, err
	}
	s = &rows.Sample{What: name, Note: "no oneDNN"}
	var them *conversation
	if peer != "" {
		if them, err = converse(peer); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, them.end()) }()
		var made struct {
			Version               string
			Operations, Different int
			Worst                 float64
		}
		if err := them.ask(&made, append(list, "")...); err != nil {
			return nil, err
		}
		var warm productTime
		if err := them.ask(&warm, "again"); err != nil {
			return nil, err
		}
		s.Note = fmt.Sprintf("oneDNN %s, %d operations, of which %d differ; values within %.1g of their definition", made.Version, made.Operations, made.Different, made.Worst)
	}
	var ours, theirs []productTime
	for range rounds {
		us, err := step()
		if err != nil {
			return nil, err
		}
		ours = append(ours, us)
		if them == nil {
			continue
		}
		var other productTime
		if err := them.ask(&other, "again"); err != nil {
			return nil, err
		}
		theirs = append(theirs, other)
	}
	return compared(s, ours, theirs, least), nil
}

// compared adds the figures of both sides to a sample.
func compared(s *rows.Sample, ours, theirs []productTime, least float64) *rows.Sample {
	list := func(of []productTime, value func(productTime) float64) (all []float64) {
		for _, p := range of {
			all = append(all, value(p))
		}
		return all
	}
	sides := func(of []productTime, who string) {
		s.Add(who, "s", list(of, productTime.sum)...)
		s.Add("forward", "s", list(of, func(p productTime) float64 { return p.Forward })...)
		s.Add("inputs' gradients", "s", list(of, func(p productTime) float64 { return p.Input })...)
		s.Add("weights' gradients", "s", list(of, func(p productTime) float64 { return p.Weight })...)
	}
	sides(ours, "ours")
	s.Add("rest of the step", "s", list(ours, func(p productTime) float64 { return p.step - p.sum() })...)
	s.Add("over the roofline", "", list(ours, func(p productTime) float64 { return p.sum() / least })...)
	if theirs != nil {
		sides(theirs, "oneDNN")
		s.Add("reorders", "s", list(theirs, func(p productTime) float64 { return p.Reorder })...)
		s.Add("ratio without reorders", "", ratios(list(ours, productTime.sum), list(theirs, productTime.sum))...)
		s.Add("ratio", "", ratios(list(ours, productTime.sum), list(theirs, func(p productTime) float64 { return p.sum() + p.Reorder }))...)
	}
	return s
}

// productOf returns the task and the line of bench/peers/onednn.cpp of a convolution or a product
// with a weight; of anything else "".
func productOf(run gpipe.KernelRun) (task, line string) {
	kind, _ := run.Instr.Product()
	if d := run.Instr.Dims(); kind == "dense" && d != (program.Dims{}) {
		switch {
		case run.Instr.Accumulates():
			task = "weight"
		case run.Task == schedule.Backward:
			task = "input"
		default:
			task = "forward"
		}
		return task, fmt.Sprintf("product %s %d %d %d", task, d.M, d.N, d.K)
	}
	what, rest, _ := strings.Cut(run.Instr.Shape(), " ")
	if !strings.HasPrefix(what, "conv2d") {
		return "", ""
	}
	var sizes []int // of the window, of both operands and whatever is fused, and of the result
	for _, text := range number.FindAllString(rest, -1) {
		n, _ := strconv.Atoi(text)
		sizes = append(sizes, n)
	}
	window, first, second, result := sizes[:8], sizes[8:12], sizes[12:16], sizes[len(sizes)-4:]
	x, w, y := first, second, result
	switch {
	case strings.HasPrefix(what, "conv2d-weight-grad"):
		task, w, y = "weight", result, second
	case strings.HasPrefix(what, "conv2d-input-grad"):
		task, x, y = "input", result, first
	default:
		task = "forward"
	}
	h, top, bottom := within(x[1], window[4], window[5])
	width, left, right := within(x[2], window[6], window[7])
	return task, strings.TrimSpace(fmt.Sprintln("conv", task, x[0], h, width, x[3], w[0], w[1], window[2], window[3], top, bottom, left, right, y[1], y[2], w[3]))
}

var number = regexp.MustCompile(`-?[0-9]+`)

// within returns pixels without those that a negative padding crops.
func within(pixels, before, after int) (n, b, a int) {
	return pixels + min(before, 0) + min(after, 0), max(before, 0), max(after, 0)
}
