//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpipebench/gpipe/cluster"
	"gpipebench/internal/testkit"
)

// hosts are two network namespaces with a cable between them.
type hosts struct {
	*testing.T
	names [2]string
}

// cabled makes two hosts; the first is 10.83.0.1.
func cabled(t *testing.T) *hosts {
	testkit.Deep(t)
	if _, err := exec.LookPath("ip"); err != nil || os.Geteuid() != 0 {
		t.Skip("two hosts as network namespaces need root and iproute2")
	}
	h := &hosts{T: t}
	for i := range h.names {
		h.names[i] = fmt.Sprintf("gpipebench%d-%d", os.Getpid(), i)
		if out, err := exec.Command("ip", "netns", "add", h.names[i]).CombinedOutput(); err != nil {
			t.Skipf("no network namespaces here: %v: %s", err, out)
		}
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", h.names[i]).Run() }) // an error: one is left
	}
	h.ip("link", "add", "cable", "netns", h.names[0], "type", "veth", "peer", "name", "cable", "netns", h.names[1])
	for i, name := range h.names {
		h.ip("-n", name, "address", "add", fmt.Sprintf("10.83.0.%d/24", i+1), "dev", "cable")
		h.ip("-n", name, "link", "set", "lo", "up")
	}
	h.plug("up")
	return h
}

func (h *hosts) ip(words ...string) {
	h.Helper()
	if out, err := exec.Command("ip", words...).CombinedOutput(); err != nil {
		h.Fatalf("ip %s: %v: %s", strings.Join(words, " "), err, out)
	}
}

// plug puts the cable in ("up") or pulls it ("down").
func (h *hosts) plug(how string) {
	h.Helper()
	for _, name := range h.names {
		h.ip("-n", name, "link", "set", "cable", how)
	}
}

// train starts two ranks, one on each host.
func (h *hosts) train(flags ...string) (ranks [2]*running) {
	temporary := h.TempDir()
	for rank := range ranks {
		cmd := command(temporary, "train --replicas=2 -m=1", slices.Concat(tiny, flags)...)
		cmd.Args = slices.Concat([]string{"ip", "netns", "exec", h.names[rank]}, cmd.Args)
		cmd.Path, cmd.Err = exec.LookPath("ip")
		cmd.Env = append(cmd.Env,
			cluster.RankVariable+"="+strconv.Itoa(rank), cluster.SizeVariable+"=2", cluster.AddressVariable+"=10.83.0.1:61000",
			cluster.SecretVariable+"=a secret of this test's own", cluster.TimeoutVariable+"="+limited)
		ranks[rank] = start(h.T, cmd)
	}
	return ranks
}

// A cable that is pulled in any phase of a run ends it on both hosts, with a line each that
// names the other's rank.
func TestCablePulled(t *testing.T) {
	h := cabled(t)
	for _, p := range phases {
		t.Run(p.name, func(t *testing.T) {
			h := &hosts{t, h.names}
			defer h.plug("up") // after the limit
			a, flags := p.aimAt(t)
			if p.name == "rendezvous" {
				h.plug("down")
			}
			ranks := h.train(append(flags, "--steps=1000000")...)
			for _, r := range ranks {
				a.ranks = append(a.ranks, r.cmd.Process.Pid)
			}
			if p.name != "rendezvous" {
				release := p.reach(a)
				h.plug("down")
				release()
			}
			for rank, r := range ranks {
				want := []string{fmt.Sprintf("rank %d", 1-rank)}
				if status := r.status(); status != 1 {
					t.Errorf("rank %d: status %d", rank, status)
				}
				matches(t, r.reason(), want)
			}
			noneHalf(t, a.snapshots)
		})
	}
}

// A cable that is put back within the limit, a network that loses packets and one that is slow
// change no bit.
func TestCableBends(t *testing.T) {
	h := cabled(t)
	for _, c := range []struct {
		name, steps string
		emulated    []string
	}{
		{"put back", "--steps=4000", nil},
		{"5% loss", "--steps=50", []string{"loss", "5%"}},
		{"50 ms delay", "--steps=20", []string{"delay", "50ms"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &hosts{t, h.names}
			flags := []string{c.steps, "--eval-every=50", "--json"}
			want, err := command(t.TempDir(), "train --replicas=2 -m=1", slices.Concat(tiny, flags)...).Output()
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range h.names {
				if c.emulated == nil {
					break
				}
				words := append([]string{"netns", "exec", name, "tc", "qdisc", "replace", "dev", "cable", "root", "netem"}, c.emulated...)
				if out, err := exec.Command("ip", words...).CombinedOutput(); err != nil {
					t.Skipf("this system cannot emulate networks (netem): %v: %s", err, out)
				}
			}
			ranks := h.train(flags...)
			for c.emulated == nil && !ranks[0].over() {
				time.Sleep(time.Second)
				h.plug("down")
				time.Sleep(time.Second / 2)
				h.plug("up")
			}
			for rank, r := range ranks {
				if status := r.status(); status != 0 {
					t.Errorf("rank %d: status %d: %s", rank, status, r.said)
				}
			}
			if got, want := hashIn(ranks[0].said.String()), hashIn(string(want)); got != want || want == "" {
				t.Errorf("hash %q, want %q", got, want)
			}
		})
	}
}

// hashIn is the weights' hash in an outcome.
func hashIn(outcome string) string {
	_, after, _ := strings.Cut(outcome, `"weights_sha256":`)
	fields := strings.Split(after, `"`)
	if len(fields) < 2 {
		return ""
	}
	return fields[1]
}
