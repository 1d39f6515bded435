# Draws a gold sample from a data frame, writes and reads it, and computes estimates:
#   Rscript estimates.R DATA.json OUT.json
files <- commandArgs(TRUE)
library(llamaherd)

data <- as.data.frame(jsonlite::read_json(files[[1]], simplifyVector = TRUE))
json <- jsonlite::toJSON

drawn <- list(
  simple = gold_sample(data, 150, text = text, label = label, seed = 11),
  stratified = gold_sample(
    data,
    150,
    by = c(label, party),
    text = text,
    label = label,
    seed = 12,
    allocation = "equal"
  ),
  uncertainty = gold_sample(
    data,
    150,
    prob = "uncertainty",
    confidence = sure,
    text = text,
    label = label,
    id = key,
    seed = 2^40
  )
)
path <- tempfile(fileext = ".csv")
results <- lapply(drawn, \(gold) {
  write_gold(gold, path, coders = "ann", overwrite = TRUE)
  # Fills in codes in the order of the file, like a person in a spreadsheet program.
  table <- utils::read.csv(
    path,
    colClasses = "character",
    fileEncoding = "UTF-8-BOM"
  )
  row <- if (is.null(gold$design$id)) {
    table$id
  } else {
    match(as.numeric(table$id), data$key)
  }
  table$ann <- data$code[as.integer(row)]
  # Spreadsheet programs read ids as numbers, and as.character() would convert 100000 to "1e+05".
  numbers <- data.frame(id = as.numeric(table$id), ann = table$ann)
  of_frame <- read_gold(numbers, gold)
  utils::write.csv(table, path, row.names = FALSE, fileEncoding = "UTF-8")
  gold <- unserialize(serialize(read_gold(path, gold), NULL))
  stopifnot(identical(of_frame, gold))
  fits <- list(
    shares = estimate(data, gold),
    groups = estimate(data, gold, outcome = "b", by = party),
    factor = estimate(
      transform(data, party = factor(party, levels = c("Y", "W", "X"))),
      gold,
      outcome = "b",
      by = "party"
    ),
    score = estimate(
      data,
      gold,
      outcome = c(a = -1, b = 0, c = 1),
      target = "texts"
    ),
    ols = estimate(data, gold, label == "b" ~ party + age, cluster = speaker),
    logit = estimate(data, gold, label == "b" ~ party + age, model = "logit"),
    right = estimate(data, gold, age ~ label + party, level = 0.9)
  )
  list(
    rows = gold$rows,
    probs = gold$all_probs,
    codes = gold$gold,
    fits = lapply(fits, \(fit) {
      c(as.list(as.data.frame(fit)), notes = list(fit$notes))
    })
  )
})
writeBin(
  charToRaw(enc2utf8(json(results, na = "null", digits = NA))),
  files[[2]]
)
