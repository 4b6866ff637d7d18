package gpipe

import (
	"context"
	"fmt"
	"strings"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/timeline/draw"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/records"
)

// drawnUpdates is how many updates are drawn, with PipeDream as a window.
const drawnUpdates = 4

// drawnStep is a step with what it sends, and its timeline.
type drawnStep struct {
	heldStep
	Bytes   int64            `json:"bytes"` // sent, of an update
	Devices int              `json:"devices"`
	Updates int              `json:"updates"` // of the events
	Events  []timeline.Event `json:"events"`
}

// section6 draws a few updates of one network in each way. It needs code for the drawing.
type section6 struct {
	*cells.Experiment[section6Spec, drawnStep]
}

func newSection6() (lab.Experiment, error) {
	of, err := section6Kind(heldNetwork.drawn, true).New()
	if err != nil {
		return nil, err
	}
	return section6{of.(*cells.Experiment[section6Spec, drawnStep])}, nil
}

func (n heldNetwork) drawn(ctx context.Context, w way6) (d drawnStep, err error) {
	if d.heldStep, err = n.fastest(ctx, w); err != nil {
		return d, err
	}
	sent, err := n.traffic(ctx, w)
	if err != nil {
		return d, err
	}
	d.Bytes, d.Devices, d.Updates = sent.Boundary+sent.Reduced+sent.Gathered, w.devices(), 1
	if w.Window > 0 {
		w.Window, d.Updates = drawnUpdates, drawnUpdates
	}
	r, err := w.step(n, d.M, d.Checkpoint, d.Sequence).Run(ctx)
	if err != nil {
		return d, err
	}
	for e := range r.Step.Timeline.OnDevices() {
		e.Peer = place.Place{}
		if w.T < 2 {
			d.Events = append(d.Events, e)
			continue
		}
		for part := range w.T { // each is a device here, and the sums within a task are at its end
			e.At.Stage = part
			task, sums := e, e
			task.End -= d.Sent * e.Seconds()
			sums.Start, sums.Kind = task.End, timeline.Reduce
			d.Events = append(d.Events, task, sums)
		}
	}
	return d, nil
}

// timeline has drawnUpdates: a window, or one after another.
func (d drawnStep) timeline() *timeline.Timeline {
	tl := &timeline.Timeline{Devices: d.Devices}
	for i := range drawnUpdates / d.Updates {
		for _, e := range d.Events {
			shift := float64(i) * d.Seconds
			e.Start, e.End = e.Start+shift, e.End+shift
			tl.Events = append(tl.Events, e)
		}
	}
	return tl
}

// Report has the picture of all timelines on one axis of time beside the tables.
func (s section6) Report(log, reference *records.Log) (*lab.Report, error) {
	r, err := s.Experiment.Report(log, reference)
	if err != nil {
		return nil, err
	}
	rows, err := s.Rows(log.Key.Profile)
	if err != nil {
		return nil, err
	}
	var drawings []draw.Drawing
	for _, row := range rows {
		if row.Of != "" {
			continue
		}
		var d drawnStep
		if err := log.Get(row.Reads[0].Sample, &d); err != nil {
			return nil, err
		}
		drawings = append(drawings, draw.Drawing{Caption: fmt.Sprintf("%v: %d updates", row.Has["way"], drawnUpdates), Timeline: d.timeline()})
	}
	var picture strings.Builder
	if err := draw.WriteSVG(&picture, drawings...); err != nil {
		return nil, err
	}
	r.Files = append(r.Files, lab.File{Name: s.ID() + ".timeline.svg", Text: picture.String()})
	return r, nil
}
