# Recalibrates labels and estimates with them: Rscript recalibration.R DATA.json OUT.json
files <- commandArgs(TRUE)
library(llamaherd)

data <- as.data.frame(jsonlite::read_json(files[[1]], simplifyVector = TRUE))
gold <- gold_sample(data, 120, text = text, label = label, seed = 11)
gold <- read_gold(data.frame(id = gold$ids, code = data$code[gold$rows]), gold)
better <- recalibrate(data, gold, seed = 5)
vectors <- as.matrix(data[c("v1", "v2", "v3")])
both <- recalibrate(
  data,
  gold,
  c("probs", "embeddings"),
  vectors,
  cluster = speaker
)
formula <- label == "b" ~ age
fits <- list(
  shares = estimate(better, gold),
  probs = estimate(data, gold, outcome = "b", predictions = "probs"),
  ols = estimate(better, gold, formula),
  right = estimate(better, gold, age ~ label)
)
out <- list(
  better = as.list(better),
  both = as.list(both),
  line = paste(recalibration(better)$line, collapse = "\n"),
  fits = lapply(fits, \(fit) list(rows = fit$rows, widths = fit$widths))
)
writeLines(
  jsonlite::toJSON(out, digits = NA, na = "null", auto_unbox = TRUE),
  files[[2]]
)
