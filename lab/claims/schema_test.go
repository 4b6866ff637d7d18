package claims

import (
	"encoding/json"
	"os"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab/labtest"
)

// The schema is made of the types and tags by which ledgers are read, and every ledger is read; what it
// says of them stays as it was when ledgers, good and bad, were held against it.
func TestSchemaStays(t *testing.T) {
	const name = "testdata/schema.json"
	is := testkit.Must(json.MarshalIndent(Schema(), "", "\t"))(t)
	is = append(is, '\n')
	if *labtest.Update {
		testkit.NoError(t, os.WriteFile(name, is, 0o644))
	}
	was := testkit.Must(os.ReadFile(name))(t)
	testkit.Equal(t, string(is), string(was), "the schema is not that of %s: -update writes it anew; then validate a ledger with it", name)
}
