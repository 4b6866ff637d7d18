package main

import (
	"os"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/playground"
)

// README shows the commands of the playground's networks with their hashes, and the commands
// end with them; so do those that the page shows for other settings.
func TestPlaygroundCommands(t *testing.T) {
	testkit.NotRaced(t)
	readme := testkit.Must(os.ReadFile("../../README.md"))(t)
	for _, net := range playground.Nets() {
		one, two := playground.Defaults(net), playground.Defaults(net)
		two.K, two.M, two.Schedule, two.Checkpoint, two.Cut, two.Seed = 2, 2, "zb-h1", "never", []int{3, 5}, 2
		if net == "digits" {
			two.Cut[1] = 8
		}
		for _, s := range []playground.Settings{one, two} {
			command := testkit.Must(s.Command())(t)
			if s.Function() == one.Function() && (!strings.Contains(string(readme), "\n"+command+"\n") || !strings.Contains(string(readme), "`"+s.Published()+"`")) {
				t.Errorf("README.md has no %q, or not its hash %s", command, s.Published())
			}
			out, _ := succeeds(t, strings.Fields(command)[1:]...)
			if want := "\nweights SHA-256 " + s.Published() + "\n"; s.Published() == "" || !strings.HasSuffix(out, want) {
				t.Errorf("%s prints\n%s, want %s", command, out, want)
			}
		}
	}
}

// A program without the page says how to get one that has it.
func TestPlaygroundNotBuilt(t *testing.T) {
	if playground.Site() != nil {
		t.Skip("built with the page")
	}
	status, out, errs := execute(t, "playground")
	testkit.Equal(t, status, 1, "exit status")
	testkit.Equal(t, out, "", "it prints")
	testkit.Equal(t, errs, "gpipebench: this program was built without the playground's page: want a program built by make playground\n")
}
