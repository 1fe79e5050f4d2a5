package op

// HintExists says what to do if a target that a step would make is there already.
const HintExists = "choose another name, or work with the one that is there: gated guests NAME shows it"
