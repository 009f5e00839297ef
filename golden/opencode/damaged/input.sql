CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, slug TEXT, directory TEXT, title TEXT, version TEXT, time_created INTEGER, time_updated INTEGER, revert TEXT, model TEXT);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
INSERT INTO session (id, directory, title, time_created) VALUES ('ses_8', NULL, NULL, 'soon');
INSERT INTO message VALUES ('msg_1','ses_8',1,'{"role":"user","time":{"created":"never"}}');
INSERT INTO part VALUES ('prt_1','msg_1','ses_8',1,'{"type":"text","text":"Still here"}'), ('prt_2','msg_1','ses_8',2,'{oops'), ('prt_3','msg_9','ses_8',3,'{"type":"text","text":"of no message"}');
INSERT INTO message VALUES ('msg_2','ses_8',2,'{oops'), ('msg_3','ses_8',3,'{"role":"assistant","tokens":{"input":-1}}');
INSERT INTO part VALUES ('prt_4','msg_2','ses_8',4,'{"type":"text","text":"x"}'), ('prt_5','msg_3','ses_8',5,'{"type":"text","text":"and here"}'), ('prt_6','msg_3','ses_8',6,'{"type":"tool","callID":"c"}');
