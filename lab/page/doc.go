// Package page writes the report: one HTML page of all results.
//
// The page has no script and no file from elsewhere, and the colours of the reader's system;
// in print it is light. `make check-report` opens it in headless Chromium at 400, 1280 and
// 1920 pixels, light and dark, with and without Liberation Sans: nothing is wider than the
// window, no message on the console, no file is requested, no letter of a plot smaller than 9
// pixels.
package page
