package schedule

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// MaxCells is the most tasks that ReadCSV takes.
const MaxCells = 1 << 20

// cell is an action of PyTorch's files: a stage, a kind and a micro-batch.
var cell = regexp.MustCompile(`^([0-9]{1,6})(F|BW|B|I|W|SEND_F|RECV_F|SEND_B|RECV_B|UNSHARD|RESHARD|REDUCE_GRAD)([0-9]{0,6})$`)

// overlapped is an F and a B that run beside each other.
var overlapped = regexp.MustCompile(`^\(([^;()]+);([^;()]+)\)OVERLAP_F_B$`)

// ReadCSV reads a schedule as PyTorch's torch.distributed.pipelining writes it: a row for
// each device, a cell for each of its tasks such as 2F0, that is stage 2, F of micro-batch
// 0; empty cells are idle time. I is the input's gradient, W that of the weights, and B or
// BW both; in older files, which have no I, a B that has a W of its own is the input's
// gradient. Of two tasks that overlap, the F comes first. Messages, and what shards and
// unshards weights, are left out.
//
// It returns lists whose F keep the residuals, where the stages are, and the number of
// micro-batches; they are not verified. An error names the row and the cell.
func ReadCSV(r io.Reader) (lists [][]Task, p Placement, micro int, err error) {
	var rows [][]Task // with stages as chunks
	device := map[int]int{}
	split := map[[2]int]bool{} // stages and micro-batches with a W
	cells := 0
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		row := []Task{}
		for i, text := range strings.Split(strings.TrimSpace(lines.Text()), ",") {
			actions := []string{strings.TrimSpace(text)}
			if both := overlapped.FindStringSubmatch(actions[0]); both != nil {
				actions = both[1:]
			}
			for _, a := range actions {
				if a == "" {
					continue
				}
				at := fmt.Sprintf("row %d, cell %d", len(rows)+1, i+1)
				if cells++; cells > MaxCells {
					return nil, p, 0, fmt.Errorf("%s: more than %d tasks", at, MaxCells)
				}
				parts := cell.FindStringSubmatch(a)
				if parts == nil {
					return nil, p, 0, fmt.Errorf("%s: %.40q: want a stage, F, B, I, W or BW, and a micro-batch, such as 2F0", at, a)
				}
				kind := slices.Index([]string{"F", "", "B", "I", "W"}, parts[2])
				if parts[2] == "BW" {
					kind = int(Backward)
				}
				if kind < 0 {
					continue
				}
				if parts[3] == "" {
					return nil, p, 0, fmt.Errorf("%s: %q has no micro-batch: want one, such as %s0", at, a, a)
				}
				stage, _ := strconv.Atoi(parts[1]) // at most six digits
				m, _ := strconv.Atoi(parts[3])
				if on, ok := device[stage]; ok && on != len(rows) {
					return nil, p, 0, fmt.Errorf("%s: %q is of stage %d, which row %d has already: want each stage in one row", at, a, stage, on+1)
				}
				device[stage] = len(rows)
				if parts[2] == "W" {
					split[[2]int{stage, m}] = true
				}
				micro = max(micro, m+1)
				row = append(row, Task{Kind: Kind(kind), Chunk: stage, Micro: m, Keep: kind == int(Forward)})
			}
		}
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		return nil, p, 0, fmt.Errorf("row %d: %w", len(rows)+1, err)
	}
	p = Placement{Devices: len(rows), Device: make([]int, len(device))}
	for stage := range p.Device {
		on, ok := device[stage]
		if !ok {
			return nil, p, 0, fmt.Errorf("no task of stage %d: want all of %d stages, from 0", stage, len(device))
		}
		p.Device[stage] = on
	}
	chunks := p.Chunks()
	for d, row := range rows {
		for i := range row {
			t := &row[i]
			if t.Kind == Backward && split[[2]int{t.Chunk, t.Micro}] {
				t.Kind = BackwardInput
			}
			t.Chunk = slices.Index(chunks[d], t.Chunk)
		}
	}
	return rows, p, micro, nil
}

// WriteCSV writes lists as [ReadCSV] reads them, without R: a cell for each of the
// steps that a unit of time, which each task takes, would have; an empty one where a
// device waits.
func WriteCSV(w io.Writer, lists [][]Task, p Placement, micro int) error {
	if Updates(lists) {
		return errors.New("schedule: updates within the lists have no place in PyTorch's files: want a schedule without U")
	}
	all := make([][]Task, len(lists))
	for d, list := range lists {
		for _, t := range list {
			if t.Kind != Recompute {
				all[d] = append(all[d], t)
			}
		}
	}
	steps, err := run(all, p, micro, func(int, Kind) float64 { return 1 }, 0)
	if err != nil {
		return err
	}
	chunks := p.Chunks()
	for d, list := range all {
		var row []string
		for i, t := range list {
			for len(row) < int(steps.Start[d][i]) {
				row = append(row, "")
			}
			row = append(row, fmt.Sprintf("%d%v%d", chunks[d][t.Chunk], t.Kind, t.Micro))
		}
		if _, err := fmt.Fprintln(w, strings.Join(row, ",")); err != nil {
			return err
		}
	}
	return nil
}
