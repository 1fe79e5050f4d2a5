// Package convert puts the gate's nouns into the objects of client/api, and reads the gate's nouns out of them. The
// public package has the objects alone, because other modules cannot name the gate's nouns.
package convert
