package train

import (
	"gpipebench/gpipe"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/stats"
)

// stepClock computes one time of many steps: on host devices the median of their wall
// times; on emulated ones a replay in which every kind of task takes the median of its
// repeats. The closed form gets the same medians.
type stepClock struct {
	batch   int             // examples of a mini-batch
	last    []*gpipe.Result // up to clockSteps
	counted int
}

// clockSteps is how many of the last steps count.
const clockSteps = 50

func (c *stepClock) add(r *gpipe.Result) {
	if len(c.last) < clockSteps {
		c.last = append(c.last, nil)
	}
	c.last[c.counted%clockSteps] = r
	c.counted++
}

// latest is the last step; nil: there was none.
func (c *stepClock) latest() *gpipe.Result {
	if c.counted == 0 {
		return nil
	}
	return c.last[(c.counted-1)%clockSteps]
}

// stepTime is what a step takes. All is 0 if there was none.
type stepTime struct {
	seconds, closedForm float64
	devices             []DeviceTime
}

// DeviceTime says where a device's time goes in a step, in seconds.
type DeviceTime struct {
	Step float64 `json:"step_seconds"` // on host devices the mean of steps, on emulated ones that of the medians
	Busy float64 `json:"busy_seconds"` // tasks, with sums over replicas and what is waited for them within; setup and update
	// Idle is the rest, by cause.
	Idle timeline.Idle `json:"idle"`
}

func (c *stepClock) read(s Setup) (t stepTime, err error) {
	if len(c.last) == 0 {
		return t, nil
	}
	var samples gpipe.Samples
	var wall []float64
	var steps []*timeline.Timeline
	for _, r := range c.last {
		samples.Add(r.Times)
		wall = append(wall, r.Seconds)
		steps = append(steps, r.Timeline)
	}
	times := samples.Median()
	window := max(times.Window, 1)
	t.seconds = stats.Median(wall)
	if s.Device == gpipe.Emulated {
		tl, err := times.Replay()
		if err != nil {
			return t, err
		}
		t.seconds, steps = tl.Span()/float64(window), []*timeline.Timeline{tl}
	}
	t.devices = deviceTimes(steps, window)
	t.closedForm, err = s.closedForm(times)
	return t, err
}

// deviceTimes are the means over steps, each of which has a window of mini-batches.
func deviceTimes(steps []*timeline.Timeline, window int) []DeviceTime {
	all := make([]DeviceTime, steps[0].Devices)
	of := 1 / float64(len(steps)*window)
	for _, tl := range steps {
		span := tl.Span()
		for d, idle := range tl.Causes() {
			all[d].Step += of * span
			all[d].Busy += of * (span - idle.Sum())
			all[d].Idle.Add(idle, of)
		}
	}
	return all
}

// closedForm is the closed form of the setup's step.
func (s Setup) closedForm(t *gpipe.Times) (float64, error) {
	if s.ScheduleFile != "" {
		return t.EvenStep()
	}
	return t.ClosedForm(s.Schedule, s.Checkpoint, s.LateRecompute)
}
