package gpipe

import (
	"fmt"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
)

// taskLists are the stages' lists for a replica's micro-batches in training. A replica
// whose groups are all empty, as at an epoch's end, has empty lists.
func (n *network) taskLists(micro int) ([][]schedule.Task, error) {
	switch {
	case n.testing.lists != nil:
		return n.testing.lists, nil
	case micro == 0:
		return make([][]schedule.Task, n.Partitions), nil
	case n.Tasks == nil:
		return schedule.Build(n.Schedule, n.Partitions, micro, n.Checkpoint, n.LateRecompute)
	case n.lists[micro] != nil:
		return n.lists[micro], nil
	}
	lists, err := n.ownTasks(micro)
	if err != nil {
		return nil, err
	}
	if most := len(n.divide(n.input.Examples, training)[0].sizes); micro < most {
		room, err := n.taskLists(most)
		if err != nil {
			return nil, err
		}
		for k := range lists {
			inputs, residuals := schedule.InFlight(lists[k])
			maxInputs, maxResiduals := schedule.InFlight(room[k])
			if inputs > maxInputs || residuals > maxResiduals {
				return nil, fmt.Errorf("task lists for %d micro-batches: stage %d holds %d inputs and %d sets of residuals at once: want at most %d and %d, as for %d micro-batches", micro, k, inputs, residuals, maxInputs, maxResiduals, most)
			}
		}
	}
	if n.lists == nil {
		n.lists = map[int][][]schedule.Task{}
	}
	n.lists[micro] = lists
	return lists, nil
}

// ownTasks returns the lists of Pipeline.Tasks, checked.
func (p Pipeline) ownTasks(micro int) ([][]schedule.Task, error) {
	lists := p.Tasks(p.Partitions, micro)
	if err := schedule.CheckLists(lists, p.Partitions, micro); err != nil {
		return nil, fmt.Errorf("task lists for %d micro-batches: %w", micro, err)
	}
	free := timeline.Costs{Task: func(place.Place, schedule.Task) float64 { return 0 }}
	if _, err := timeline.Replay(lists, free); err != nil {
		return nil, fmt.Errorf("task lists for %d micro-batches: %w", micro, err)
	}
	return lists, nil
}
