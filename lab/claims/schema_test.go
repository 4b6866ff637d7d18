package claims

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"gpipebench/experiments"
)

// Every ledger follows the schema, as it is printed.
func TestLedgersFollowTheSchema(t *testing.T) {
	for _, p := range experiments.Papers {
		if wrong := againstSchema(t, string(p.Claims)); wrong != "" {
			t.Errorf("%s/claims.yaml: %s", p.Name, wrong)
		}
	}
}

// A ledger that is not of the form is refused by the schema and by what reads ledgers, at the same
// place.
func TestSchemaRefusesWhatLedgersMayNotBe(t *testing.T) {
	for _, good := range []string{goodLedger, goodHeadline} {
		if wrong := againstSchema(t, good); wrong != "" {
			t.Fatalf("%s\n%s", wrong, good)
		}
	}
	for _, c := range []struct{ good, old, replacement, at string }{
		{goodLedger, "kind: ratio", "kind: guess", "claims.0.kind"},
		{goodLedger, "tolerance: near", "tolerence: near", "claims.0"},
		{goodLedger, "id: a\n", "note: a\n", "claims.0"},
		{goodLedger, "id: a\n", "id:\n", "claims.0.id"},
		{goodLedger, "id: a\n", "id: ' '\n", "claims.0.id"},
		{goodLedger, "id: a\n", "id: [a]\n", "claims.0.id"},
		{goodLedger, "percent: 10", "percent: ten", "tolerances.near.percent"},
		{goodLedger, "percent: 10", "percent: -1", "tolerances.near.percent"},
		{goodLedger, "percent: 10", "percent: 101", "tolerances.near.percent"},
		{goodLedger, "percent: 10", "gain: 1", "tolerances.near.gain"},
		{goodLedger, "because: a reason", "because: ''", "tolerances.near.because"},
		{goodLedger, "{N: the paper}", "{}", "versions"},
		{goodLedger, "{N: the paper}", "{N: the paper, '?': another}", "versions"},
		{goodLedger, "check: {measured: 'cell(\"t\", \"v\", \"k\", {x})'}", "check: ['cell(\"t\")']", "claims.0.check"},
		{goodLedger, "{x: 2}", "x", "claims.0.each.0"},
		{goodLedger, "- {x: 2}", "- {x: 2}\n      - {x: 2}", "claims.0.each"},
		{goodHeadline, "id: row", "id: Row", "headline.0.id"},
		{goodHeadline, "claims: [a]", "claims: []", "headline.0.claims"},
		{goodHeadline, "claims: [a]", "claims: a", "headline.0.claims"},
		{goodHeadline, "same_as: a", "same_as: [a]", "claims.1.same_as"},
		{goodHeadline, "same_as: a", "same_as: a, falsified_by: {a: 1}", "claims.1.falsified_by"},
	} {
		text := strings.Replace(c.good, c.old, c.replacement, 1)
		if text == c.good {
			t.Fatalf("no %q", c.old)
		}
		_, err := parseLedger("claims.yaml", []byte(text))
		if wrong := againstSchema(t, text); !strings.HasPrefix(wrong, c.at+": ") || err == nil {
			t.Errorf("%s: by the schema %q, want %s; as a ledger %v", c.replacement, wrong, c.at, err)
		}
	}
}

// againstSchema is where a ledger does not follow the schema, and how; "": it does.
func againstSchema(t *testing.T, ledger string) string {
	t.Helper()
	plain := func(of any) (as any) {
		text, err := json.Marshal(of)
		if err == nil {
			err = json.Unmarshal(text, &as)
		}
		if err != nil {
			t.Fatal(err)
		}
		return as
	}
	var document any
	if err := yaml.Unmarshal([]byte(ledger), &document); err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(invalid(t, plain(Schema()).(map[string]any), plain(document), ""), ".")
}

// invalid is where a value does not follow a schema, and how, by the keywords that Schema uses. A
// keyword that it does not know fails the test.
func invalid(t *testing.T, schema map[string]any, v any, at string) string {
	t.Helper()
	object, _ := v.(map[string]any)
	list, _ := v.([]any)
	text, isText := v.(string)
	number, isNumber := v.(float64)
	kind := map[reflect.Kind]string{reflect.Map: "object", reflect.Slice: "array", reflect.String: "string", reflect.Float64: "number", reflect.Bool: "boolean"}[reflect.ValueOf(v).Kind()]
	for _, keyword := range slices.Sorted(maps.Keys(schema)) {
		is, bound, ok := schema[keyword], 0.0, true
		if b, isBound := is.(float64); isBound {
			bound = b
		}
		switch keyword {
		case "$schema", "title":
		case "type":
			all, several := is.([]any)
			if !several {
				all = []any{is}
			}
			ok = slices.Contains(all, any(kind)) || slices.Contains(all, any("integer")) && isNumber && number == float64(int64(number))
		case "enum":
			ok = slices.Contains(is.([]any), v)
		case "anyOf":
			ok = slices.ContainsFunc(is.([]any), func(one any) bool { return invalid(t, one.(map[string]any), v, at) == "" })
		case "required":
			for _, name := range is.([]any) {
				if _, has := object[name.(string)]; object != nil && !has {
					ok = false
				}
			}
		case "properties":
			for _, name := range slices.Sorted(maps.Keys(object)) {
				if of, known := is.(map[string]any)[name]; known {
					if wrong := invalid(t, of.(map[string]any), object[name], at+"."+name); wrong != "" {
						return wrong
					}
				}
			}
		case "additionalProperties":
			known, _ := schema["properties"].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(object)) {
				if of, open := is.(map[string]any); known[name] == nil && !open {
					ok = false
				} else if known[name] == nil {
					if wrong := invalid(t, of, object[name], at+"."+name); wrong != "" {
						return wrong
					}
				}
			}
		case "propertyNames":
			for name := range object {
				ok = ok && invalid(t, is.(map[string]any), name, at) == ""
			}
		case "items":
			for i, entry := range list {
				if wrong := invalid(t, is.(map[string]any), entry, fmt.Sprintf("%s.%d", at, i)); wrong != "" {
					return wrong
				}
			}
		case "uniqueItems":
			for i := range list {
				ok = ok && !slices.ContainsFunc(list[:i], func(before any) bool { return reflect.DeepEqual(before, list[i]) })
			}
		case "minItems":
			ok = list == nil || float64(len(list)) >= bound
		case "maxItems":
			ok = float64(len(list)) <= bound
		case "minProperties":
			ok = object == nil || float64(len(object)) >= bound
		case "maxProperties":
			ok = float64(len(object)) <= bound
		case "pattern":
			ok = !isText || regexp.MustCompile(is.(string)).MatchString(text)
		case "maxLength":
			ok = float64(len(text)) <= bound
		case "minimum":
			ok = !isNumber || number >= bound
		case "maximum":
			ok = !isNumber || number <= bound
		default:
			t.Fatalf("an unknown keyword %s", keyword)
		}
		if !ok {
			return fmt.Sprintf("%s: not of %s %v", at, keyword, is)
		}
	}
	return ""
}
