package nn_test

import (
	"fmt"
	"math"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

func ExampleLRUnits_Parse() {
	s, err := nn.LRUnits{}.Parse("warmup:4,cosine:8", 0.1)
	if err != nil {
		fmt.Println(err)
		return
	}
	for step := 1; step <= 13; step++ {
		fmt.Printf("%.4f ", s.Rate(step))
	}
	// Output: 0.0250 0.0500 0.0750 0.1000 0.0962 0.0854 0.0691 0.0500 0.0309 0.0146 0.0038 0.0000 0.0000
}

// TestLRSchedules checks rates that can be worked out by hand.
func TestLRSchedules(t *testing.T) {
	type rates map[int]float64
	for _, c := range []struct {
		text string
		base float64
		want rates
	}{
		{"constant", 0.5, rates{1: 0.5, 1000: 0.5}},
		{"warmup:4", 0.5, rates{1: 0.125, 2: 0.25, 4: 0.5, 5: 0.5}},
		{"warmup:1", 0.5, rates{1: 0.5, 2: 0.5}},
		{"inverse-sqrt:4", 0.5, rates{1: 0.125, 2: 0.25, 4: 0.5, 16: 0.25, 64: 0.125}},
		// Vaswani et al. 2017, equation 3, at its peak: 512^-0.5 * 4000^-0.5.
		{"inverse-sqrt:4000:512", 1, rates{4000: 1 / math.Sqrt(512*4000), 1: 1 / math.Sqrt(512*4000) / 4000, 16000: 0.5 / math.Sqrt(512*4000)}},
		{"exponential:0.5:2", 1, rates{1: 1, 2: 1, 3: 0.5, 4: 0.5, 5: 0.25}},
		{"exponential:0.25:2:smooth", 1, rates{1: 1, 2: 0.5, 3: 0.25, 4: 0.125}},
		{"polynomial:2:4", 1, rates{1: 1, 2: 0.5625, 3: 0.25, 4: 0.0625, 5: 0, 1000: 0}},
		{"polynomial:1:2:0.5", 2, rates{1: 2, 2: 1.5, 3: 1, 9: 1}},
		{"warmup:2,polynomial:2:2", 1, rates{1: 0.5, 2: 1, 3: 0.25, 4: 0}},
		{"cosine:4", 1, rates{1: 1, 2: 0.5 + math.Sqrt2/4, 3: 0.5, 5: 0, 6: 0, 1000: 0}},
		{"cosine:4:0.5", 2, rates{1: 2, 3: 1.5, 5: 1, 6: 1}},
		{"warmup:3,exponential:0.5:2", 1, rates{1: 1. / 3, 2: 2. / 3, 3: 1, 4: 1, 5: 0.5, 6: 0.5, 7: 0.25}},
	} {
		checkRates(t, nn.LRUnits{}, c.text, c.base, c.want)
	}
	testkit.Equal(t, (nn.WarmUpLR{Then: nn.ConstantLR(2)}).Rate(1), 2, "a warm-up of no steps starts at")
}

// checkRates compares rates of some steps.
func checkRates(t *testing.T, units nn.LRUnits, text string, base float64, want map[int]float64) {
	t.Helper()
	s := testkit.Must(units.Parse(text, base))(t)
	for step, want := range want {
		if got := s.Rate(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: rate of step %d is %v, want %v", text, step, got, want)
		}
	}
}

// TestLRUnits: AmoebaNet's schedule, and its parts, for mini-batches of 512 and
// epochs of 10 steps.
func TestLRUnits(t *testing.T) {
	units := nn.LRUnits{Batch: 512, EpochSteps: 10}
	for text, want := range map[string]map[int]float64{
		"batch/256":                  {1: 1, 1000: 1},
		"batch/1024,constant":        {1: 0.25},
		"exponential:0.5:2.49epochs": {24: 0.5, 25: 0.25, 49: 0.125}, // 24.9 steps, rounded down
		"warmup:0.4epochs":           {1: 0.125, 4: 0.5},
		"cosine:0.4epochs":           {3: 0.25, 5: 0},
		"inverse-sqrt:0.4epochs":     {1: 0.125, 16: 0.25},
		// 0.5 * 512/256, reached at step 50; in force until 50+24-1.
		"batch/256,warmup:5epochs,exponential:0.97:2.4epochs": {1: 0.02, 25: 0.5, 50: 1, 73: 1, 74: 0.97, 97: 0.97, 98: 0.97 * 0.97},
	} {
		checkRates(t, units, text, 0.5, want)
	}
	checkRates(t, nn.LRUnits{EpochSteps: 100}, "exponential:0.5:0.29epochs", 1, map[int]float64{29: 1, 30: 0.5})
	for _, c := range []struct {
		units      nn.LRUnits
		text, want string
	}{
		{nn.LRUnits{EpochSteps: 10}, "batch/256", "no mini-batch"},
		{nn.LRUnits{Batch: 10}, "warmup:5epochs", `"5epochs", but there are no epochs`},
		{units, "batch/0", `"0" is not a whole number`},
		{units, "batch/256epochs", `"256epochs" is not a whole number`},
		{units, "warmup:5,batch/256", `unknown "batch/256"`},
		{units, "batch/256,", `unknown ""`},
		{units, "cosine:epochs", "not a positive number of epochs"},
		{units, "cosine:NaNepochs", "not a positive number of epochs"},
		{units, "cosine:0.05epochs", "of 10 steps each is not 1 to"},
		{units, "cosine:1e300epochs", "of 10 steps each is not 1 to"},
		{units, "exponential:0.5epochs:10", `"0.5epochs" is not a number`},
	} {
		testkit.Refused(c.units.Parse(c.text, 0.5))(t, c.want)
	}
}

func TestLRUnitsParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                             `unknown ""`,
		"cosin:10":                     `unknown "cosin", want constant,`,
		"constant:1":                   "want constant",
		"polynomial:2":                 "want polynomial:POWER:STEPS[:FINAL]",
		"polynomial:0:10":              `"0" is not a positive power`,
		"polynomial:2:5:2":             `"2" is not a number from 0 to 1`,
		"cosine":                       "want cosine:STEPS[:FINAL]",
		"cosine:0":                     `"0" is not a whole number`,
		"cosine:1:2:3":                 "want cosine:STEPS[:FINAL]",
		"cosine:10:1.5":                `"1.5" is not a number from 0 to 1`,
		"cosine:99999999999":           "not a whole number from 1 to 2147483647",
		"exponential:0.9":              "want exponential:FACTOR:EVERY[:smooth]",
		"exponential:0.9:10:staircase": `"staircase" is not smooth`,
		"inverse-sqrt:1.5":             `"1.5" is not a whole number`,
		"warmup:x":                     `"x" is not a whole number`,
		"warmup":                       "warmup comes once, in front",
		"warmup:5,":                    `unknown ""`,
		"warmup:5,warmup:5":            "warmup comes once, in front",
		"warmup:5,cosine:5,constant":   "before a comma",
		"warmup:5,inverse-sqrt:5":      "warm-up of its own",
		"cosine:5,warmup:5":            "before a comma",
	} {
		testkit.Refused(nn.LRUnits{}.Parse(text, 0.1))(t, want, fmt.Sprintf("%q", text))
	}
	for _, base := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := (nn.LRUnits{}).Parse("constant", base); err == nil {
			t.Errorf("a learning rate of %v is accepted", base)
		}
	}
}

// FuzzParseLRSchedule: nothing panics, and the rates of an accepted schedule
// are ones that an optimiser can use.
func FuzzParseLRSchedule(f *testing.F) {
	for _, text := range []string{
		"constant", "warmup:200", "inverse-sqrt:400", "inverse-sqrt:4000:512", "cosine:1000", "cosine:1000:0.1",
		"exponential:0.97:240", "exponential:0.97:240:smooth", "warmup:200,cosine:1000", "warmup:1,", ",", "::", "warmup:2147483647",
		"batch/256,warmup:5epochs,exponential:0.97:2.4epochs", "batch/1", "cosine:1e9epochs",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := (nn.LRUnits{Batch: 1, EpochSteps: 3}).Parse(text, 0.5)
		if err != nil {
			return
		}
		for _, step := range []int{1, 2, 3, 1000, math.MaxInt32} {
			if r := s.Rate(step); !(r >= 0 && r <= 0.5*(1+1e-9)) {
				t.Errorf("%q: rate of step %d is %v", text, step, r)
			}
		}
	})
}
