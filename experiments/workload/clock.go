package workload

import (
	"gpipebench/gpipe"
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

func (c *stepClock) read(s Setup) (seconds, closedForm float64, err error) {
	if len(c.last) == 0 {
		return 0, 0, nil
	}
	var samples gpipe.Samples
	var wall []float64
	for _, r := range c.last {
		samples.Add(r.Times)
		wall = append(wall, r.Seconds)
	}
	times := samples.Median()
	seconds = stats.Median(wall)
	if s.Device == gpipe.Emulated {
		tl, err := times.Replay()
		if err != nil {
			return 0, 0, err
		}
		seconds = tl.Span()
	}
	closedForm, err = s.closedForm(times)
	return seconds, closedForm, err
}
