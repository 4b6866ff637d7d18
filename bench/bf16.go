package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpipebench/bench/rows"
)

// typed is a training step whose memory is nearly all activations.
const typed = "bench --model transformer-lm --layers 8 --dim 128 --ff 512 --heads 4 --seq 128 --vocab 512 -k 1 -m 1 --checkpoint never --steps 1 --warmup 1 --json"

// bf16 compares the memory of bfloat16 activations with that of float32 ones, in the plan
// and in the process: what a step of many examples takes more than one of few.
func (b *bench) bf16() error {
	const few, many = 32, 256
	memory := func(dtype string, batch int) (plan, process float64, err error) {
		args := append(strings.Fields(typed), "--dtype", dtype, "--batch", strconv.Itoa(batch))
		out, rss, err := measured(b.command, args...)
		if err != nil {
			return 0, 0, err
		}
		var said struct {
			Peak []int64 `json:"peak_bytes"`
		}
		if err := json.Unmarshal(out, &said); err != nil || len(said.Peak) != 1 {
			return 0, 0, fmt.Errorf("bench printed %.100q (%w)", out, err)
		}
		const mib = 1 << 20
		return float64(said.Peak[0]) / mib, float64(rss) / mib, nil
	}
	of := map[string][2][]float64{} // plan, process
	for range b.rounds {
		for _, dtype := range []string{"f32", "bf16"} {
			var grown [2]float64
			for sign, batch := range map[float64]int{-1: few, 1: many} {
				plan, process, err := memory(dtype, batch)
				if err != nil {
					return err
				}
				grown[0] += sign * plan
				grown[1] += sign * process
			}
			o := of[dtype]
			for i, g := range grown {
				o[i] = append(slices.Clip(o[i]), g)
			}
			of[dtype] = o
		}
	}
	for i, where := range []string{"plan", "process"} {
		s := &rows.Sample{What: where}
		s.Add("bf16", "MiB", of["bf16"][i]...)
		s.Add("f32", "MiB", of["f32"][i]...)
		s.Add("ratio", "", ratios(of["bf16"][i], of["f32"][i])...)
		if err := b.add(s); err != nil {
			return err
		}
	}
	return nil
}
