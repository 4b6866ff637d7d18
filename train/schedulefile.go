package train

import (
	"fmt"
	"slices"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/failure"
	"gpipebench/internal/files"
)

// scheduleFile is a file of a schedule.
var scheduleFile = files.Kind{What: "a schedule", Bytes: 64 << 20}

// NamesScheduleFile reports whether a schedule's name names a file.
func NamesScheduleFile(name string) bool { return strings.HasSuffix(name, ".csv") }

// ReadSchedule reads a schedule from a file, in the format of schedule.ReadCSV, and
// verifies it.
func ReadSchedule(name string) (lists [][]schedule.Task, p schedule.Placement, micro int, err error) {
	text, err := files.Read(name, scheduleFile)
	if err != nil {
		return nil, p, 0, err
	}
	lists, p, micro, err = schedule.ReadCSV(strings.NewReader(string(text)))
	switch {
	case err != nil:
	case len(lists) == 0 || micro == 0:
		err = fmt.Errorf("no tasks: want a row for each device")
	default:
		err = schedule.Verify(lists, p, micro)
	}
	if err != nil {
		return nil, p, 0, fmt.Errorf("%s: %w", files.Printable(name), err)
	}
	return lists, p, micro, nil
}

// readSchedule makes the pipeline run the setup's file of a schedule.
func (s Setup) readSchedule(p *gpipe.Pipeline) error {
	if s.ScheduleFile == "" {
		return nil
	}
	lists, placed, micro, err := ReadSchedule(s.ScheduleFile)
	if err != nil {
		return err
	}
	name := files.Printable(s.ScheduleFile)
	chunks := 0
	for _, own := range placed.Chunks() {
		chunks = max(chunks, len(own))
	}
	switch {
	case placed.Devices != s.Partitions:
		return failure.Usagef("%s is for %d devices: want as many partitions, not %d", name, placed.Devices, s.Partitions)
	case micro != s.MicroBatches:
		return failure.Usagef("%s is for %d micro-batches: want as many, not %d", name, micro, s.MicroBatches)
	case s.Chunks != 0 && s.Chunks != chunks:
		return failure.Usagef("%s has %d chunks on a device: want as many, not %d", name, chunks, s.Chunks)
	}
	lists = schedule.Checkpointed(lists, s.Checkpoint, s.LateRecompute)
	p.Placement = placed
	p.Tasks = func(_, m int) [][]schedule.Task { // of fewer at an epoch's end, without those that it lacks
		own := make([][]schedule.Task, len(lists))
		for d, list := range lists {
			own[d] = slices.DeleteFunc(slices.Clone(list), func(t schedule.Task) bool { return t.Micro >= m })
		}
		return own
	}
	return nil
}
