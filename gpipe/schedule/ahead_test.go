package schedule

import (
	"slices"
	"testing"
)

// What runs ahead without lists is what lists have before their first B or I; V-shaped ones may take
// some F earlier.
func TestAhead(t *testing.T) {
	for _, name := range Names() {
		s, _ := Parse(name)
		for devices := 1; devices <= 5; devices++ {
			for _, micro := range []int{1, 2, 5, 10, 11} {
				for _, chunks := range []int{1, 2, 3} {
					lists, place, err := Generate(name, devices, chunks, micro)
					if err != nil {
						continue
					}
					for d, list := range lists {
						want := make([]int, chunks)
						for _, task := range list {
							if task.Kind != Forward {
								break
							}
							want[task.Chunk]++
						}
						got := Ahead(s, devices, chunks, micro, d)
						eager := place.Stages() > devices && s != Interleaved && s != DualPipeV
						if less := eager && got[0] <= want[0] && got[1] <= want[1] && slices.Min(got) > 0; !less && !slices.Equal(got, want) {
							t.Errorf("%s, K = %d, V = %d, M = %d, device %d: %v F ahead, the list has %v", name, devices, chunks, micro, d, got, want)
						}
					}
				}
			}
		}
	}
}
