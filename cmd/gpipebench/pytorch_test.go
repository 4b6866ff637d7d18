package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// The lines of docs/howto.md that measure a model of PyTorch's write what the commands after them
// read: of ids, and of layers without parameters, or which change what they get in place.
func TestPyTorchLayers(t *testing.T) {
	testkit.CI(t)
	const python = "/usr/bin/python3" // Debian's, as in .ci/run
	if exec.Command(python, "-c", "import torch").Run() != nil {
		t.Skip("no PyTorch for " + python)
	}
	howto := testkit.Must(os.ReadFile("../../docs/howto.md"))(t)
	section := regexp.MustCompile("(?s)\n## A PyTorch model\n.*?```python\n(.*?)```\n\n```\n(.*?)```\n").FindStringSubmatch(string(howto))
	if section == nil {
		t.Fatal("docs/howto.md has no lines that measure a model")
	}
	model := `
import torch
from torch import nn
torch.set_num_threads(1)
blocks = [m for i in range(4) for m in (nn.Linear(32, 64 * (i + 1)), nn.ReLU(inplace=True), nn.Linear(64 * (i + 1), 32))]
layers = nn.Sequential(nn.Embedding(100, 32), nn.LayerNorm(32), *blocks)
x = torch.randint(100, (16, 8))
`
	t.Chdir(t.TempDir())
	measure := exec.Command(python, "-c", model+section[1])
	said, err := measure.CombinedOutput()
	testkit.NoError(t, err, "%s", said)
	layers := testkit.Must(os.ReadFile("layers.csv"))(t)
	testkit.Equal(t, strings.Count(string(layers), "\n"), 15, "lines of\n%s\n", layers)
	for line := range strings.Lines(section[2]) {
		out, _ := succeeds(t, strings.Fields(line)[1:]...)
		testkit.Has(t, out, "7") // the last of 8 stages
	}
}
