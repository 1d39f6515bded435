# Made up for this package; see ?ag_news_sample.
ag_news_sample <- utils::read.table(
  header = TRUE,
  sep = "|",
  quote = "",
  strip.white = TRUE,
  text = "
class|title|description
World|Budget passes by two votes|Parliament passed the budget by two votes after a debate that lasted until four in the morning.
World|Neighbours to talk about border|The president will meet the leaders of both neighbouring countries to discuss a border treaty.
World|Opposition wins northern city|Voters in the northern province elected a mayor from the opposition for the first time.
World|Foreign minister steps down|The foreign minister resigned after a vote of no confidence in the senate.
World|Thousands protest against election law|Thousands marched to the government buildings to protest against the new election law.
World|New cabinet, old promise|The prime minister named a new cabinet and promised a referendum on the constitution.
World|Ceasefire holds for another month|Diplomats from six nations agreed to extend the ceasefire while peace talks continue.
World|Court stops emergency decree|The supreme court ruled that the emergency decree of the government was unlawful.
World|Exit polls see majority lost|The ruling party lost its majority in the lower house, exit polls on Sunday night said.
World|Ambassador called home|The ambassador was called home after the two governments accused each other of spying.
World|Immigration bill rejected|Lawmakers rejected the immigration bill, and the coalition now has until May to write another.
World|Ministers argue about electricity|Members of parliament asked the energy minister why electricity costs more than in neighbouring countries.
World|Flood leaves villages cut off|Soldiers brought water and food by boat to forty villages that the flood has cut off since Tuesday.
World|Rebels free hostages|Rebels in the mountains freed eleven aid workers after three weeks of talks with the church.
World|Earthquake shakes island|An earthquake damaged hundreds of houses on the island, and officials asked people to sleep in the open.
World|Two states reopen crossing|The two states reopened their only border crossing, which had been closed for six years.
World|Peacekeepers to stay until spring|The council voted to keep four thousand peacekeepers in the capital until spring.
World|Journalists go on trial|Nine journalists went on trial for reports about the army, and the unions called for their release.
World|Island votes on independence|People of the island vote on Sunday on whether it should become a state of its own.
World|Strike stops trains in capital|A strike of drivers stopped all trains in the capital, and the government offered new talks.
World|Grain ships leave harbour|The first ships with grain left the harbour after both sides had promised not to attack them.
World|Former general sworn in|The former general was sworn in as president and said that he would rule for one year only.
World|Refugees reach second camp|Some six thousand refugees walked to a second camp because the first one had no more tents.
World|Summit ends without agreement|The summit of the coastal states ended without an agreement on who may fish where.
World|Capital bans old diesel cars|The city council banned diesel cars of more than fifteen years from the centre of the capital.
Sports|Late goals decide cup final|The striker scored twice in the last ten minutes as the home side won the cup final 3-2.
Sports|Teenager reaches first semifinal|After a five-set match that lasted four hours, the nineteen-year-old reached her first tennis semifinal.
Sports|Climber takes the lead|The cyclist broke away on the last climb and will lead the tour into the mountains tomorrow.
Sports|Coach drops three before derby|The coach dropped three players before the derby and asked for more discipline in defence.
Sports|Ninth win in a row|A late three-pointer at the buzzer gave the visitors their ninth win in a row and the lead in the league.
Sports|Sprinter fastest of the season|The sprinter ran the 200 metres in 20.1 seconds, the fastest time of the season so far.
Sports|Rain stops play|Rain stopped play on the second day of the cricket test with the tourists on 214 for six wickets.
Sports|Keeper stays for eight years|The goalkeeper signed a new contract that keeps him at the club until he is thirty-four.
Sports|Relay team disqualified|Two swimmers started too early in the relay, and the bronze medal went to the team in fourth place.
Sports|Rookie throws four touchdowns|The rookie quarterback threw four touchdown passes in his first game as a starter.
Sports|Fans queue for seventh game|Hockey fans waited all night for tickets to the seventh game of the playoffs.
Sports|Champion out of spring races|The marathon champion will miss the spring races because of a knee injury.
Sports|Former mayor loses title fight|The boxer who once ran for mayor lost his title fight in the eleventh round.
Sports|Chess champion beats computer|The chess champion beat the computer in one of four games and shared the prize money.
Sports|Rowers win by a hair|The eight from the lake won the final by two hundredths of a second after it had been last at half way.
Sports|Golfer leads after second round|A birdie on the last hole gave the golfer a lead of one stroke after the second round.
Sports|Club dismisses manager|The club dismissed its manager after the fifth defeat in a row and named his assistant.
Sports|Skiers wait for snow|The first downhill of the winter was put off because there is too little snow on the course.
Sports|Pitcher allows one hit|The pitcher allowed one hit in eight innings, and the home team won 2-0.
Sports|Referee to miss tournament|The referee who overlooked the handball in the semifinal will not be at the tournament.
Sports|Handball women into final|With fourteen saves of their keeper the handball women reached the final of the championship.
Sports|Jockey wins with borrowed horse|The jockey won the race on a horse that she had first ridden the day before.
Sports|Record transfer falls through|The record transfer of the midfielder fell through because he did not pass the medical tests.
Sports|Volleyball side saves four match points|The volleyball side saved four match points and won the fifth set by 19 to 17.
Sports|Rugby captain banned|The captain was banned for three matches for a tackle that ended the season of the fly-half.
Business|Car maker cuts forecast again|Shares of the car maker fell eight percent after it cut its profit forecast for the second time this year.
Business|Interest rates unchanged|The central bank left interest rates unchanged and said that inflation was slowing.
Business|Bakery buys largest rival|A family-owned bakery chain will buy its largest rival for 120 million in cash.
Business|Airline warns of fuel costs|The airline reported record quarterly revenue but warned that fuel costs would hurt earnings.
Business|Stocks lower for a fourth day|Investors moved money into bonds as stock markets closed lower for a fourth day.
Business|Retailer hires for holidays|The online retailer plans to open three warehouses and hire 2,000 workers before the holidays.
Business|Toy company bankrupt|The toy company filed for bankruptcy and said that it could not repay its lenders.
Business|Oil above ninety dollars|Oil prices rose above ninety dollars a barrel on fears of lower exports.
Business|Bank to return fees|The bank agreed to pay a fine and will return the fees that it had charged its customers.
Business|House prices slow down|House prices grew more slowly last month as mortgage rates stayed high, the lenders said.
Business|Coffee company raises dividend|The coffee company raised its dividend and told shareholders that sales abroad had doubled.
Business|Insurers to merge|Two insurers announced a merger that would create the third-largest company in the market.
Business|Stadium gets insurer's name|The football club's shares rose five percent after it sold the name of its stadium to an insurance company.
Business|Vaccine lifts drug maker|The stock of the drug maker jumped when the trial of its vaccine succeeded.
Business|Brewery closes oldest plant|The brewery will close its oldest plant in autumn and move two hundred jobs to the coast.
Business|Exports grow less than expected|Exports grew by one percent in March, half of what economists had expected.
Business|Builder wins airport contract|The construction company won the contract for the second terminal, worth 900 million.
Business|Start-up goes public|The maker of electric bicycles goes public next week at a price of 18 to 21 a share.
Business|Shop chain ends price war|The largest chain of supermarkets raised the price of milk and so ended a price war of ten months.
Business|Auditors find gap in books|Auditors found a gap of 40 million in the books of the shipping company, whose treasurer has left.
Business|Currency at lowest in a decade|The currency fell to its lowest in a decade, and importers raised prices within hours.
Business|Steel maker asks for tariffs|The steel maker asked for tariffs because imports cost less than it pays for its ore.
Business|Unemployment falls for third month|Unemployment fell for the third month in a row, mainly in hotels and restaurants.
Business|Investor wants seats on board|An investor who holds nine percent of the shares wants two seats on the board of the paper mill.
Business|Vineyards insure against frost|More vineyards buy insurance against frost after two harvests that did not cover their costs.
Sci/Tech|Planet found near red star|Astronomers have found a planet twice the size of Earth that circles a small red star every nine days.
Sci/Tech|Battery lasts ten thousand cycles|A new battery keeps 90 percent of its capacity after ten thousand charging cycles, researchers report.
Sci/Tech|Octopus lives in coconut|Biologists filmed an octopus that uses coconut shells as a shelter on the sea floor.
Sci/Tech|First pictures of icy moon|The space probe sent back the first close pictures of the icy moon after a seven-year journey.
Sci/Tech|Plastic breaks down in sea water|Chemists made a plastic that breaks down in sea water within two weeks in the laboratory.
Sci/Tech|Ice cores tell of fast change|A study of ice cores shows that the climate changed within a few decades 12,000 years ago.
Sci/Tech|Particle weighed again|Physicists measured the mass of the particle with three times the precision of earlier experiments.
Sci/Tech|Unknown dinosaur in quarry|Fossils from a quarry in the desert belong to a dinosaur species that nobody had described before.
Sci/Tech|Robot arm sorts cells|Researchers taught a robot arm to sort cells under the microscope without damaging them.
Sci/Tech|Mutation makes virus faster|Doctors sequenced the genome of the virus and found the mutation that lets it spread faster.
Sci/Tech|Volcano gives old signals|Geologists say that the volcano shows the same signals as before its last eruption a century ago.
Sci/Tech|Sleep helps runners|Runners who sleep longer recover faster from muscle damage, a study of 300 volunteers has found.
Sci/Tech|Steel without coal|Engineers tested a reactor that could make steel without coal, but each ton still costs three times as much.
Sci/Tech|Why some leagues are hard to predict|Mathematicians explained why some football leagues are harder to predict than others.
Sci/Tech|Browser gets smaller|The makers of the free browser cut the memory that it needs by a third and mended forty faults.
Sci/Tech|Phone hears falling trees|Old phones in the rain forest send an alarm when they hear a chain saw, a group of students showed.
Sci/Tech|Worm hits hospital computers|A computer worm that comes as an invoice stopped the appointments of two hospitals for a day.
Sci/Tech|Chip computes with light|A laboratory built a chip that multiplies numbers with light and stays as cool as the air around it.
Sci/Tech|Bees count to four|Honey bees can learn to count to four, zoologists found, but take a break in bad weather.
Sci/Tech|Satellite measures ground water|A pair of satellites measures from their distance how much water is left in the ground below.
Sci/Tech|Old tablet read by machine|A program joined the pieces of a clay tablet that had been kept in three museums.
Sci/Tech|Game console out in autumn|The new game console comes out in autumn and runs the games of the two that came before it.
Sci/Tech|Fish that glows in the dark|Divers brought up a fish whose fins glow in the dark although no bacteria live in them.
Sci/Tech|Search engine answers offline|The search engine for encyclopedias fits on a memory stick and needs no network.
Sci/Tech|Glue works under water|A glue made after the feet of mussels holds two plates together under water.
"
)
