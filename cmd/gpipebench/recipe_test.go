package main

import (
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// TestRecipe: a recipe has precedence over the network's preset, flags over both,
// and --dry prints what would be trained.
func TestRecipe(t *testing.T) {
	out, _ := succeeds(t, "train", "--dry", "--snapshot-dir", "it's "+strings.Repeat("s", 80))
	testkit.Has(t, out, `--snapshot-dir='it'\''s `+strings.Repeat("s", 80)+"'\n")
	for _, c := range []struct {
		args          string
		has, hasNot   []string
		alsoAsCommand bool
	}{
		{
			args: "--model amoebanetb --recipe imagenet --l2 0.1 --drop-path-rise steps",
			has: []string{
				"gpipebench train --model=amoebanetb --layers=3 --filters=32 ", "--batch=64", "--epochs=100", "--optimizer=rmsprop", "--lr=0.015 ",
				"--lr-schedule=batch/32,warmup:3epochs,exponential:0.97:2.4epochs", "--clip-norm=10", "--l2=0.1 ", "--label-smoothing=0.1",
				"--aux=0.4", "--drop-path=0.3", "--drop-path-rise=steps", "--dropout=0.5", "--ema=0.9999", "--bn-momentum=0.9997", "--threads=2",
			},
			hasNot: []string{"recipe", "dry", "nesterov"}, alsoAsCommand: true,
		},
		{args: "--model amoebanetd --recipe imagenet --steps 5", has: []string{"--steps=5", "rmsprop", "--drop-path-rise=both"}, hasNot: []string{"--epochs"}},
		{args: "--model amoebanetd", has: []string{"--optimizer=nesterov", "--lr-schedule=warmup:1epochs,cosine:9epochs"}, hasNot: []string{"--aux"}},
		{args: "--model resnet50 --clip-norm 1 --steps 1500 --json=false", has: []string{"--steps=1500", "--clip-norm=1"}, alsoAsCommand: true},
		{args: "--model transformer --epochs 9", hasNot: []string{"--lr-schedule"}},
		{args: "--steps 7", has: []string{"gpipebench train --steps=7\n"}},
	} {
		stdout, stderr := succeeds(t, strings.Fields("train --dry "+c.args)...)
		testkit.Equal(t, stderr, "", "%s says", c.args)
		testkit.Has(t, stdout, c.has...)
		for _, not := range c.hasNot {
			if strings.Contains(stdout, not) {
				t.Errorf("%s: %q in %s", c.args, not, stdout)
			}
		}
		if !c.alsoAsCommand {
			continue
		}
		_, again, _ := execute(t, append(strings.Fields(stdout)[1:], "--dry")...)
		_, json, _ := execute(t, append(strings.Fields(stdout)[1:], "--dry", "--json")...)
		if got := keys(t, json, "command")["command"]; again != stdout || got != strings.TrimSpace(stdout) {
			t.Errorf("the printed command prints %s and %v, not itself: %s", again, got, stdout)
		}
	}
}
