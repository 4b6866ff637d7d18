package train_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gpipebench/train"
	"gpipebench/train/traintest"
)

// A log has the losses of all steps and evaluations, to the last bit, in both formats.
func TestLog(t *testing.T) {
	for _, ending := range train.RowEndings {
		tr := traintest.TinyTraining()
		tr.Steps, tr.EvalEvery, tr.Log = 4, 2, filepath.Join(t.TempDir(), "losses"+ending)
		r, err := tr.Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(tr.Log)
		if err != nil {
			t.Fatal(err)
		}
		losses, held := map[int]float64{}, map[int]float64{}
		for _, row := range rowsOf(t, ending, string(raw)) {
			step, err := strconv.Atoi(row["step"])
			if err != nil {
				t.Fatal(err)
			}
			if row["loss"] != "" {
				losses[step] = number(t, row["loss"])
				if number(t, row["examples_per_second"]) <= 0 || number(t, row["step_seconds"]) <= 0 || number(t, row["lr"]) <= 0 {
					t.Errorf("%s: step %v", ending, row)
				}
			} else {
				held[step] = number(t, row["held_out_loss"])
			}
		}
		for i, loss := range r.Losses {
			if losses[i+1] != loss {
				t.Errorf("%s: step %d has %v, want %v", ending, i+1, losses[i+1], loss)
			}
		}
		if len(losses) != 4 || len(held) != 2 || held[2] != r.Evals[0].Loss || held[4] != r.Eval.Loss {
			t.Errorf("%s: losses %v, held out %v; want %v, %v and %v", ending, losses, held, r.Losses, r.Evals[0].Loss, r.Eval.Loss)
		}
	}
}

// An interrupted training keeps the lines of its steps, and one that does not begin
// leaves the log of an earlier one.
func TestLogOfInterrupted(t *testing.T) {
	tr := traintest.TinyTraining()
	tr.Steps, tr.Log = 1000, filepath.Join(t.TempDir(), "losses.csv")
	ctx, stop := context.WithCancel(t.Context())
	_, err := tr.Run(ctx, func(s train.TrainStep) {
		if s.Step == 3 {
			stop()
		}
	})
	if err == nil {
		t.Fatal("the training was not interrupted")
	}
	raw, err := os.ReadFile(tr.Log)
	if err != nil || strings.Count(string(raw), "\n") != 4 {
		t.Errorf("after 3 steps: %q, %v", raw, err)
	}
	tr.Load = filepath.Join(t.TempDir(), "missing")
	if _, err := tr.Run(t.Context(), nil); err == nil {
		t.Error("weights of a missing file were loaded")
	}
	if again, err := os.ReadFile(tr.Log); err != nil || string(again) != string(raw) {
		t.Errorf("after a training that did not begin: %q, %v", again, err)
	}
}

// rowsOf reads a file of rows.
func rowsOf(t *testing.T, ending, text string) (rows []map[string]string) {
	t.Helper()
	if ending == ".jsonl" {
		for line := range strings.Lines(text) {
			var values map[string]any
			if err := json.Unmarshal([]byte(line), &values); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			row := map[string]string{}
			for key, v := range values {
				row[key] = fmt.Sprint(v)
			}
			rows = append(rows, row)
		}
		return rows
	}
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, v := range line {
			row[lines[0][i]] = v
		}
		rows = append(rows, row)
	}
	return rows
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) {
		t.Errorf("%q: want a number", text)
	}
	return v
}
