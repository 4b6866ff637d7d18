package yamldoc

import (
	"fmt"
	"reflect"

	"gopkg.in/yaml.v3"
)

// Schemed is a type with a syntax of its own, an UnmarshalYAML, that says as JSON Schema what it
// accepts.
type Schemed interface {
	yaml.Unmarshaler
	Schema() map[string]any
}

// Schema returns a JSON Schema (2020-12) of the documents that Decode decodes into a value, made of
// the same types and tags. It has the form of each field. It does not have the words of vocabularies,
// what a check finds between fields, nor the rule that keys tell the entries of a list apart. A type
// without a schema is a defect of the program.
func Schema(of any, title string) map[string]any {
	s := schemaOf(reflect.TypeOf(of), rule{})
	s["$schema"], s["title"] = "https://json-schema.org/draft/2020-12/schema", title
	return s
}

// TextSchema is the schema of a text, which YAML may also read as a number or a truth value.
func TextSchema() map[string]any {
	return map[string]any{"type": []string{"string", "number", "boolean"}, "maxLength": maxLine}
}

func schemaOf(t reflect.Type, rule rule) map[string]any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if own, ok := reflect.New(t).Interface().(Schemed); ok {
		return own.Schema()
	}
	if _, own := reflect.New(t).Interface().(yaml.Unmarshaler); own || rule.none || rule.null || rule.partial || t.Kind() == reflect.Array {
		panic(fmt.Sprintf("yamldoc: %v: no schema", t))
	}
	least := 1 // of entries
	if rule.optional {
		least = 0
	}
	switch t.Kind() {
	case reflect.Struct:
		properties, required := map[string]any{}, []string{}
		for _, f := range fieldsOf(t) {
			properties[f.name] = schemaOf(f.of, f.rule)
			if f.needed() {
				required = append(required, f.name)
			}
		}
		return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	case reflect.Slice:
		rule.optional = false
		return map[string]any{"type": "array", "items": schemaOf(t.Elem(), rule), "minItems": least, "maxItems": rule.entries, "uniqueItems": true}
	case reflect.Map:
		rule.optional = false
		return map[string]any{
			"type": "object", "propertyNames": map[string]any{"pattern": nameForm.String()}, "additionalProperties": schemaOf(t.Elem(), rule),
			"minProperties": least, "maxProperties": maxEntries,
		}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		s := TextSchema()
		switch {
		case rule.word == "id":
			s["pattern"] = idForm.String()
		case rule.word == "name":
			s["pattern"] = nameForm.String()
		case rule.optional:
			s["pattern"] = `^$|\S`
		default:
			s["pattern"] = `\S`
		}
		return s
	}
	s := map[string]any{"type": "integer", "minimum": rule.least, "maximum": rule.most}
	if t.Kind() == reflect.Float64 {
		s["type"] = "number"
	}
	if rule.above {
		delete(s, "minimum")
		s["exclusiveMinimum"] = rule.least
	}
	return s
}
