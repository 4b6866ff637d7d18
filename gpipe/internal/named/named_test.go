package named_test

import (
	"fmt"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/gpipe/internal/named"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
)

// inverse checks that parse reads the names of the constants 0 to n-1, and refuses others.
func inverse[T interface {
	~uint8
	fmt.Stringer
}](t *testing.T, n int, parse func(string) (T, error), want string) {
	t.Helper()
	for v := range T(n) {
		testkit.Equal(t, testkit.Must(parse(v.String()))(t), v)
	}
	for _, name := range []string{"", "other", T(n).String()} {
		_, err := parse(name)
		testkit.Equal(t, fmt.Sprint(err), fmt.Sprintf(want, name))
	}
}

// Every type with names reads what it writes, and names what it would accept.
func TestNames(t *testing.T) {
	inverse(t, 14, schedule.Parse, "unknown schedule %q: want gpipe, naive, 1f1b, interleaved, zb-h1, zb-h2, zb-v, v-half, v-min, dualpipe-v, pipedream, pipedream-vertical, pipedream-nostash or pipedream-2bw")
	inverse(t, 3, schedule.ParseCheckpoint, "unknown checkpoint mode %q: want always, except-last or never")
	inverse(t, 4, partition.Parse, "unknown partitioner %q: want min-max, min-variance, lingvo or block")
	inverse(t, 3, reduction.ParseKind, "unknown all-reduce %q: want tree, ring or 2d")
	inverse(t, 3, gpipe.ParseKind, "unknown device %q: want host, emulated or modelled")
	inverse(t, 2, gpipe.ParseTableGradients, "unknown way of tied gradients %q: want reduce or gather")
	inverse(t, 2, gpipe.ParseAccounting, "unknown accounting %q: want paper or full")
	testkit.Equal(t, fmt.Sprint(schedule.Kind(7), schedule.Schedule(70), schedule.GPipe, schedule.Always), "Kind(7) Schedule(70) gpipe always")
	testkit.Equal(t, named.Any(nil)+named.Any([]string{"a"}), "a")
}
