package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"gpipebench/gpipe"
	"gpipebench/internal/failure"
	"gpipebench/internal/files"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/simulate"
)

func newSchedule() *cobra.Command {
	var s simulate.Scheduling
	var format, svg, html string
	var parts struct{ f, b, w float64 }
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "Simulate a schedule from given task times",
		Long: `Schedule builds a schedule by name, or reads one in PyTorch's format (.csv), checks that
it is complete, in order and free of deadlock, and runs it on a virtual clock. It prints
the step time, each device's idle time by cause, and the memory that each device needs.
--html writes an interactive page: move sliders for times, sizes and memory and watch the
timeline. Times and activations are per device and micro-batch; each of V chunks takes
1/V of them. A file given to --times has a row for each stage instead.

With --search it looks for a schedule within a memory limit, with one and with two chunks
per device unless --chunks says how many, first greedily and then by moving tasks. The
same flags and seed find the same schedule.`,
		RunE: does(func(_ context.Context, o *output) error {
			if err := checkOutputs(nil, [2]string{"svg", svg}, [2]string{"html", html}); err != nil {
				return err
			}
			r, err := s.Run()
			if err != nil {
				return err
			}
			if svg != "" {
				err = files.Write(svg, func(w io.Writer) error { return r.SVG(w, heading(&s, r)) })
			}
			if err == nil && html != "" {
				err = files.Write(html, func(w io.Writer) error { return r.HTML(w, s) })
			}
			switch {
			case err != nil:
				return err
			case format == "json":
				return o.json(r)
			case format == "csv":
				return r.CSV(o.out)
			}
			return printSchedule(o, &s, r, format)
		}),
	}
	fs := cmd.Flags()
	value(fs, &s.Schedule, "schedule", "gpipe", strings.Join(scheduleNames(), "|")+"|FILE.csv", "order of the tasks", func(name string) (string, error) {
		if strings.HasSuffix(name, ".csv") {
			return name, nil
		}
		return oneOf(scheduleNames()...)(name)
	})
	windowFlag(fs, &s.Window)
	count(fs, &s.K, "k|partitions", 4, 1, gpipe.MaxTasks, "devices, K; a --schedule file has its own number")
	count(fs, &s.M, "m|micro-batches", 8, 1, gpipe.MaxExamples, "micro-batches, M; a --schedule file has its own number")
	count(fs, &s.Chunks, "chunks", 0, 0, 64, "model chunks per device, V; 0: the schedule's default, 2 for interleaved, and 1 or 2 with --search")
	value(fs, &s.Times, "times", "f=1,b=1,w=1,comm=0", "f=..,b=..,w=..,u=..,comm=..|FILE.csv", "milliseconds of F, B (input gradients), W (weight gradients), U (an update within the lists), and comm (a transfer between devices); or a file with a row for each stage and columns name, f, b, w (as cut --out writes it), optionally after comm=N,", simulate.ParseTaskTimes)
	value(fs, &parts, "activations", "f=1,b=0,w=1", "f=..,b=..,w=..", "memory that F stores, and how much of it B (input gradients) and W (weight gradients) free, in any unit; f = b + w", func(text string) (p struct{ f, b, w float64 }, err error) {
		p.f, p.b, p.w = math.NaN(), math.NaN(), math.NaN()
		if err = simulate.ParseNumbers(text, map[string]*float64{"f": &p.f, "b": &p.b, "w": &p.w}, "f,b,w"); err != nil {
			return p, err
		}
		if math.Abs(p.f-p.b-p.w) <= 1e-9*p.f {
			return p, nil
		}
		return p, fmt.Errorf("want all three, with b + w = f")
	})
	fs.BoolVar(&s.Search, "search", false, "look for a schedule within --memory-limit, instead of --schedule; two chunks may be placed in a V or interleaved")
	number(fs, &s.Limit, "memory-limit", 0, anything, "largest memory of a device, in the unit of --activations, for --search and --html")
	seedFlag(fs, &s.Seed, "seed of the search")
	fileFlag(fs, &svg, "svg", "file for a picture of the timeline", ".svg")
	fileFlag(fs, &html, "html", "file for an interactive page with sliders for sizes, times and memory", ".html")
	outcomeFlags(fs, &format, "text", "csv", "json")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		switch {
		case s.Search && s.Limit == 0:
			return failure.Usagef("--search without --memory-limit: want the most that a device may hold, such as --memory-limit 8")
		case s.Times.File != "" && html != "":
			return failure.Usagef("--html with a file of --times: want the same times for all devices, such as --times f=2,b=2,w=1")
		case s.Search && fs.Changed("window"):
			return failure.Usagef("--search and --window: want one of them, since asynchronous schedules cannot be searched")
		case s.Search && fs.Changed("schedule"):
			return failure.Usagef("--search and --schedule: want one of them")
		case !s.Search && fs.Changed("seed"):
			return failure.Usagef("--seed without --search: want it with --search")
		case !s.Search && html == "" && fs.Changed("memory-limit"):
			return failure.Usagef("--memory-limit without --search or --html: want it with one of them")
		}
		s.Activations.Whole, s.Activations.Weights = parts.f, parts.w
		return nil
	}
	return cmd
}

func printSchedule(o *output, s *simulate.Scheduling, r *simulate.Scheduled, format string) error {
	t := lab.Table{
		Title: heading(s, r),
		Notes: []string{
			fmt.Sprintf("The step takes %.6g ms. The longest span of a device, from the start of its first task to the end of its last, is %.6g ms; a share of %.4f of it is idle (the bubble rate).", r.Makespan, r.Span, r.BubbleRate),
		},
	}
	if f := r.Searched; f != nil {
		t.Notes = append(t.Notes, fmt.Sprintf("Found among %d schedules, from %s, within a limit of %g.", f.Tried, f.From, s.Limit))
		if f.Least > 0 {
			t.Notes = append(t.Notes, fmt.Sprintf("No schedule with this placement of stages is shorter than %.6g ms, whatever its memory.", f.Least))
		}
	}
	t.Numbers("device")
	t.Texts("stages")
	t.Numbers("start, ms", "end, ms", "busy, ms", "peak memory")
	if s.Window > 0 {
		t.Numbers("versions", "staleness")
		t.Caption = []string{"Versions: weight versions held at once. Staleness: the most updates between the weights that a mini-batch's F reads and the update by its gradient."}
	}
	chunks := r.Place.Chunks()
	for i, d := range r.Devices {
		row := []any{i, strings.Trim(fmt.Sprint(chunks[i]), "[]"), lab.Number("%.6g", d.Start), lab.Number("%.6g", d.End), lab.Number("%.6g", d.Busy), lab.Number("%.4g", d.Peak)}
		if s.Window > 0 {
			row = append(row, d.Versions, d.Staleness)
		}
		t.Add(row...)
	}
	if err := t.Write(o.out, format); err != nil {
		return err
	}
	if err := o.printf("\n"); err != nil {
		return err
	}
	of := lab.Table{Title: "Causes of idle time", Caption: []string{
		"Idle time of each device, in milliseconds. Link: waiting for a transfer; imbalance: waiting for a task that takes longer than the mean; warm-up: before the first B; drain: after the last F; neighbour: waiting for another device in between.",
	}}
	of.Numbers("device", "idle", "warm-up", "drain", "neighbour", "imbalance", "link")
	for i, d := range r.Devices {
		row := []any{i}
		for _, part := range []float64{d.Idle.Sum(), d.Idle.WarmUp, d.Idle.Drain, d.Idle.Neighbour, d.Idle.Imbalance, d.Idle.Link} {
			row = append(row, lab.Number("%.4g", part))
		}
		of.Add(row...)
	}
	return of.Write(o.out, format)
}

// heading names a schedule.
func heading(s *simulate.Scheduling, r *simulate.Scheduled) string {
	name := s.Schedule
	if s.Search {
		name = "searched"
	}
	text := fmt.Sprintf("%s: %s, %s, %s", name, units.Counted(r.Place.Devices, "device"), units.Counted(r.Place.Stages(), "stage"), units.Counted(r.Micro, "micro-batch"))
	if s.Window > 0 {
		text += fmt.Sprintf(" in a window of %d mini-batches", s.Window)
	}
	return text
}
