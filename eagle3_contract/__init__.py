"""The EAGLE-3 domain: recipe, wiring, vocab map, drafter forward, trainers, engines, attribution."""
