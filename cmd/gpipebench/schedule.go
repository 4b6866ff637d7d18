package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/failure"
	"gpipebench/internal/files"
	"gpipebench/lab"
	"gpipebench/simulate"
)

func newSchedule() *cobra.Command {
	var s simulate.Scheduling
	unit := schedule.Duration{F: 1, I: 1, W: 1}
	s.Times.Duration = unit
	var format, svg, html string
	var parts struct{ f, b, w float64 }
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "Show what a schedule comes to, by the times of its tasks alone",
		Long: `Schedule makes a schedule by name, or reads one as PyTorch writes it (.csv), proves
that it is complete, in order and free of deadlock, and runs it on a virtual clock: the
step, the idle part of it, whose bubble it is, and the memory that each device needs.
--html writes a page on which all that is moved by hand. Times and activations
are those of a device for one micro-batch; each of V chunks has a V-th of them. With --search
it looks for a schedule within a limit of memory instead, greedily and then by moving
tasks: the same flags and seed find the same one.`,
		RunE: does(func(_ context.Context, o *output) error {
			if err := checkOutputs([2]string{"svg", svg}, [2]string{"html", html}); err != nil {
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
	value(fs, &s.Schedule, "schedule", "gpipe", strings.Join(schedule.Names(), "|")+"|FILE.csv", "order of the tasks", func(name string) (string, error) {
		if strings.HasSuffix(name, ".csv") {
			return name, nil
		}
		return oneOf(schedule.Names()...)(name)
	})
	count(fs, &s.K, "k|partitions", 4, 1, gpipe.MaxTasks, "devices, K; of a file: as it has")
	count(fs, &s.M, "m|micro-batches", 8, 1, gpipe.MaxExamples, "micro-batches, M; of a file: as it has")
	count(fs, &s.Chunks, "chunks", 0, 0, 64, "stages of each device, V, of interleaved; 0: as the schedule has, of interleaved 2")
	value(fs, &s.Times, "times", "f=1,b=1,w=1,comm=0", "f=..,b=..,w=..,comm=..", "milliseconds of a forward function, of the input's and of the weights' gradient, and from one device to another", func(text string) (d struct {
		schedule.Duration
		Comm float64
	}, err error) {
		d.Duration = unit
		err = simulate.ParseNumbers(text, map[string]*float64{"f": &d.F, "b": &d.I, "w": &d.W, "comm": &d.Comm}, "f,b,w,comm")
		return d, err
	})
	value(fs, &parts, "activations", "f=1,b=0,w=1", "f=..,b=..,w=..", "what a forward function stores, and how much of it the input's and the weights' gradient free, in any unit; f = b + w", func(text string) (p struct{ f, b, w float64 }, err error) {
		p.f, p.b, p.w = math.NaN(), math.NaN(), math.NaN()
		if err = simulate.ParseNumbers(text, map[string]*float64{"f": &p.f, "b": &p.b, "w": &p.w}, "f,b,w"); err != nil {
			return p, err
		}
		if math.Abs(p.f-p.b-p.w) <= 1e-9*p.f {
			return p, nil
		}
		return p, fmt.Errorf("want all three, and b + w as much as f")
	})
	fs.BoolVar(&s.Search, "search", false, "look for a schedule within --memory-limit, in place of --schedule; with two chunks, there and back or in turns")
	number(fs, &s.Limit, "memory-limit", 0, anything, "the most that a device may hold, in the unit of --activations: of --search, and shown by --html")
	seedFlag(fs, &s.Seed, "of the search")
	fileFlag(fs, &svg, "svg", "file for the timeline as a picture", ".svg")
	fileFlag(fs, &html, "html", "file for a page on which schedule, sizes, times and a memory limit are moved, and timeline and memory follow", ".html")
	outcomeFlags(fs, &format, "text", "csv", "json")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		switch {
		case s.Search && s.Limit == 0:
			return failure.Usagef("--search without --memory-limit: want the most that a device may hold, such as --memory-limit 8")
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
			fmt.Sprintf("The step takes %.6g ms; the longest time from a device's first task to the end of its last is %.6g ms, of which %.4f is idle (the bubble rate).", r.Makespan, r.Span, r.BubbleRate),
		},
	}
	if f := r.Searched; f != nil {
		t.Notes = append(t.Notes, fmt.Sprintf("Found among %d schedules, from %s, within a limit of %g.", f.Tried, f.From, s.Limit))
		if f.Least > 0 {
			t.Notes = append(t.Notes, fmt.Sprintf("No schedule of one chunk a device is shorter than %.6g ms, whatever its memory.", f.Least))
		}
	}
	t.Numbers("device")
	t.Texts("stages")
	t.Numbers("start, ms", "end, ms", "busy, ms", "peak memory")
	chunks := r.Place.Chunks()
	for i, d := range r.Devices {
		t.Add(i, strings.Trim(fmt.Sprint(chunks[i]), "[]"), lab.Number("%.6g", d.Start), lab.Number("%.6g", d.End), lab.Number("%.6g", d.Busy), lab.Number("%.4g", d.Peak))
	}
	if err := t.Write(o.out, format); err != nil {
		return err
	}
	if err := o.printf("\n"); err != nil {
		return err
	}
	of := lab.Table{Title: "Whose bubble it is", Caption: []string{
		"The rest of the step on each device, in milliseconds. Link: what comes next is under way; warm-up: before the first B; drain: after the last F; neighbour: waiting for another device in between. Stages are alike here, so that none waits for a slower one.",
	}}
	of.Numbers("device", "idle", "warm-up", "drain", "neighbour", "link")
	for i, d := range r.Devices {
		row := []any{i}
		for _, part := range []float64{d.Idle.Sum(), d.Idle.WarmUp, d.Idle.Drain, d.Idle.Neighbour, d.Idle.Link} {
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
	return fmt.Sprintf("%s: %d devices, %d stages, %d micro-batches", name, r.Place.Devices, r.Place.Stages(), r.Micro)
}
