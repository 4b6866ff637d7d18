package train_test

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"gpipebench/train/traintest"
)

// A log has the losses of all steps and evaluations, to the last bit.
func TestLog(t *testing.T) {
	tr := traintest.TinyTraining()
	tr.Steps, tr.EvalEvery, tr.Log = 4, 2, filepath.Join(t.TempDir(), "losses.csv")
	r, err := tr.Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	losses, held := map[int]float64{}, map[int]float64{}
	for _, row := range rowsOf(t, tr.Log) {
		step, err := strconv.Atoi(row["step"])
		if err != nil {
			t.Fatal(err)
		}
		if row["loss"] != "" {
			losses[step] = number(t, row["loss"])
			if number(t, row["examples_per_second"]) <= 0 || number(t, row["step_seconds"]) <= 0 || number(t, row["lr"]) <= 0 {
				t.Errorf("step %v", row)
			}
		} else {
			held[step] = number(t, row["held_out_loss"])
		}
	}
	for i, loss := range r.Losses {
		if losses[i+1] != loss {
			t.Errorf("step %d has %v, want %v", i+1, losses[i+1], loss)
		}
	}
	if len(losses) != 4 || len(held) != 2 || held[2] != r.Evals[0].Loss || held[4] != r.Eval.Loss {
		t.Errorf("losses %v, held out %v; want %v, %v and %v", losses, held, r.Losses, r.Evals[0].Loss, r.Eval.Loss)
	}
}

// rowsOf reads a file of comma-separated values.
func rowsOf(t *testing.T, name string) (rows []map[string]string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
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
