package train_test

import (
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
