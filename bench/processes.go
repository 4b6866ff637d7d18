package main

import (
	"context"
	"strconv"

	"gpipebench/bench/rows"
	"gpipebench/gpipe/cluster"
	"gpipebench/train"
)

// processes compares two replicas in two processes with the same in one, of one thread
// each, on the even Transformer.
func (b *bench) processes() error {
	var program cluster.Program
	program.StartWith(b.command)
	args := append([]string{
		"bench", "--replicas", "2", "-k", "1", "-m", strconv.Itoa(even.Setup.MicroBatches / 2), "--batch", strconv.Itoa(even.Batch),
		"--checkpoint", "never", "--threads", "1", "--steps", "3", "--warmup", "1",
	}, even.Model.Flags()...)
	ways := []string{"one process", "tcp", "unix"}
	sides := map[string][]float64{}
	for round := range b.rounds {
		for i := range ways {
			way, processes := ways[(i+round)%len(ways)], 2
			if way == ways[0] {
				processes = 1
			}
			var r train.Bench
			if err := program.Run(context.Background(), processes, way, args, &r); err != nil {
				return err
			}
			sides[way] = append(sides[way], r.StepSeconds.Median)
		}
	}
	for _, c := range []struct{ way, name string }{{"tcp", "TCP"}, {"unix", "Unix sockets"}} {
		s := &rows.Sample{What: c.name}
		s.Add("one process", "s", sides[ways[0]]...)
		s.Add("two processes", "s", sides[c.way]...)
		s.Add("of its throughput", "", ratios(sides[ways[0]], sides[c.way])...)
		if err := b.add(s); err != nil {
			return err
		}
	}
	return nil
}
