# Draws waves, and estimates with survey weights: Rscript waves.R DATA.json OUT.json
files <- commandArgs(TRUE)
library(llamaherd)

data <- as.data.frame(jsonlite::read_json(files[[1]], simplifyVector = TRUE))
draw <- function(n, seed, ...) {
  gold_sample(data, n, text = text, label = label, seed = seed, ...)
}
coded <- function(gold) {
  read_gold(data.frame(id = gold$ids, ann = data$code[gold$rows]), gold)
}
first <- coded(draw(90, 21))
drawn <- list(
  simple = coded(gold_sample(data, 60, after = first, seed = 22)),
  errors = coded(gold_sample(
    data,
    60,
    after = first,
    prob = data$w,
    seed = 2^40
  )),
  uncertainty = coded(
    gold_sample(
      data,
      40,
      after = coded(gold_sample(
        data,
        60,
        after = first,
        prob = data$w,
        seed = 23
      )),
      prob = "uncertainty",
      confidence = sure,
      seed = 24
    )
  ),
  strata = coded(
    gold_sample(
      data,
      60,
      after = coded(draw(60, 25, by = c(label, party))),
      seed = 26
    )
  ),
  weights = coded(draw(90, 27, prob = "weights", weights = w, floor = 0.2))
)
results <- lapply(drawn, \(gold) {
  path <- tempfile(fileext = ".csv")
  write_gold(gold, path)
  again <- read_gold(path)
  stopifnot(
    identical(again$all_probs, gold$all_probs),
    identical(again$gold, gold$gold)
  )
  fits <- list(
    shares = estimate(data, gold),
    weighted = estimate(data, gold, weights = w),
    groups = estimate(data, gold, outcome = "b", by = party, weights = "w"),
    ols = estimate(data, gold, label == "b" ~ party + age, weights = data$w),
    logit = estimate(
      data,
      gold,
      label == "b" ~ party,
      model = "logit",
      weights = w
    ),
    part = estimate(subset(data, party == "X"), gold)
  )
  list(
    rows = gold$rows,
    probs = gold$probs,
    all_probs = gold$all_probs,
    history = gold$history[c("wave", "kind", "n", "N", "seed", "n_coded")],
    measures = as.list(as.data.frame(validate(data, gold, weights = w))),
    fits = lapply(fits, \(fit) {
      c(as.list(as.data.frame(fit)), notes = list(as.list(fit$notes)))
    })
  )
})
json <- jsonlite::toJSON(results, na = "null", digits = NA)
writeBin(charToRaw(enc2utf8(json)), files[[2]])
